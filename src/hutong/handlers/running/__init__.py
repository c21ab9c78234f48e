"""An app at work: its consumers and its bus on a loop, until a signal, or within a test."""
