"""Transactional messages: stored where nobody reads them, until their producer commits them or rolls them back."""
