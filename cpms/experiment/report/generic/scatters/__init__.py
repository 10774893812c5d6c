"""Time against bytes, and error or iterations against bits, in panels for each graph or in rows for each contestant."""
