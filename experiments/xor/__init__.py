"""The paper's first figure: how a network grows on XOR."""
