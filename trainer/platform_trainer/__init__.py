"""The training runtime of the platform: reads one spec, trains, and tells its events as JSON lines (PROTOCOL.md)."""
