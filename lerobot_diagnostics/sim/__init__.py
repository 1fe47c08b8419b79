"""A simulated SO-101 on a table (extra ``sim``): everything that needs an arm or a camera, without either."""
