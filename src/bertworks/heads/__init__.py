"""What stands on an encoder: each head turns its vectors into the scores of one task.

masked_lm  a score per vocabulary token at each position
pair       next sentence, sentence order: two scores per text
classify   a score per label for the text (BERT's and RoBERTa's way)
tag        a score per label for each token
span       start and end scores for each token: extractive answers
choice     one score per candidate text
transform  a dense layer before the scores of a text or of each token (ModernBERT's way)
pool       one vector per text: first, mean or max; BERT's trained pooler
"""
