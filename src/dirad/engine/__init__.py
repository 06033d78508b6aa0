"""Where work is done: here, in processes and threads, or by Ray on the nodes of a cluster.

Independent runs and shards of a large L1 ask for the engine in use; results do not depend on it:

```
with on_ray("10.0.0.7:6379"):
    PREVALClassifier().fit(X, y)
```
"""

from dirad.engine.choice import Engine, current, using
from dirad.engine.local import Local, cores, threads_for
from dirad.engine.rays import ClusterError, RayEngine, on_ray
from dirad.engine.runs import Progress, run_all

__all__ = [
    "ClusterError",
    "Engine",
    "Local",
    "Progress",
    "RayEngine",
    "cores",
    "current",
    "on_ray",
    "run_all",
    "threads_for",
    "using",
]
