"""PREVAL: a second network predicts the states of the first; what it cannot predict is new."""
