"""Reports: figures, tables and stories about networks and how they grew."""
