"""SavedModels: what they take, and which ones are kept."""
