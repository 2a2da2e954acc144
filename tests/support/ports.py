"""Ports of loopback that nobody listens on now."""

from warmlog.children import free_port

__all__ = ["free_port"]
