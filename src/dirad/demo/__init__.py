"""What `dirad demo` shows: three problems for one network, then a stream for a system of them."""
