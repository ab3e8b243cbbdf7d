"""Original clients of other services, against a service that recognises exactly. Only `make clients` runs them."""
