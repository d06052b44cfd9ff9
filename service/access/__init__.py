"""Access: projects, the keys that belong to them, and the log of who changed what."""
