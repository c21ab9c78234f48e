"""The side of a service: bindings, dispatch, interceptors, discovery."""
