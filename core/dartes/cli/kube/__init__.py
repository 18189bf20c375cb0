"""`kubectl dartes`: a job in a cluster seen from a person's machine, through the `kubectl` that they have.

Asks nothing but what `kubectl` can, with the rights of whoever calls it; knows no Kubernetes client.
"""
