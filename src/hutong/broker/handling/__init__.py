"""Requests as handlers see them: the context of one, its connection as values, and answers that come later."""
