from mappable.worlds.simulation import Simulated as Simulated
from mappable.worlds.simulation import simulate as simulate
from mappable.worlds.simulation import write_simulated as write_simulated
