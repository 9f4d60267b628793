"""What tests of maps share."""

from made_maps import described as described
from made_maps import hills as hills
from made_maps import town as town
