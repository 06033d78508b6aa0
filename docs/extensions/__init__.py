"""Parts of pages that are made from the source."""
