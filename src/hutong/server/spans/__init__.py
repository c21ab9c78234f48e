"""Spans that the nodes of a cluster keep: shown by the console of each, asked for by those of the others."""
