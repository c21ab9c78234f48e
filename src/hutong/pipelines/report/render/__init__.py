"""The page of a run: charts, graphs and tables as HTML and SVG."""
