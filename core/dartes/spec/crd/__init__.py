"""The CustomResourceDefinition `dartesjobs.dartes.dev`, made from the job's models.

It turns what the models say (types, bounds, defaults, mutability) into what an API server can check by
itself; it never talks to one.
"""

from dartes.spec.crd.document import definition, manifest

__all__ = ["definition", "manifest"]
