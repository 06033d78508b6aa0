"""scikit-learn estimators: one network that grows, and a system of models that keeps learning."""

from dirad.estimators.continual import PREVALClassifier
from dirad.estimators.detector import watch
from dirad.estimators.growing import DIRADClassifier, DIRADRegressor

__all__ = ["DIRADClassifier", "DIRADRegressor", "PREVALClassifier", "watch"]
