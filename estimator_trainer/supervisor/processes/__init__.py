"""The processes of this machine: how they are started and isolated, and where their output goes."""
