"""The paper's protocol and tables on changing tasks, run again beside the paper's numbers."""
