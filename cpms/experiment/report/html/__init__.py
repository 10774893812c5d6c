"""The report of rows as one HTML page: its tables, and its figures as SVG."""
