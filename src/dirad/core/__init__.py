"""Arrays and kernels: the network, its states, its gradients, its adaptive potentials."""
