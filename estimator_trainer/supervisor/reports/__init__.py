"""What the supervisor says about a run (`wording`), and what it writes into the model_dir (`report_file`)."""
