"""Dead letters: topics of records that were given up, the reasons, and their way back."""
