import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Source routes through the mesh")
struct TopologyTests {
  private let now = Instant.zero.advanced(by: .seconds(100))

  private func id(_ number: UInt64) -> PeerID { PeerID(rawValue: number) }

  /// A mesh in which the two nodes of each edge list each other, and the first node of a `oneSided` edge lists the
  /// second.
  private func topology(
    _ edges: [(UInt64, UInt64)], oneSided: [(UInt64, UInt64)] = [], saidAt: Instant? = nil
  ) throws -> Topology {
    var neighbours: [UInt64: Set<UInt64>] = [:]
    for (left, right) in edges {
      neighbours[left, default: []].insert(right)
      neighbours[right, default: []].insert(left)
    }
    for (left, right) in oneSided { neighbours[left, default: []].insert(right) }
    var random = SeededRandom(seed: 1)
    let key = X25519.PrivateKey(randomFrom: &random).publicKey
    let signing = Ed25519.PrivateKey(randomFrom: &random).publicKey
    let peers = neighbours.filter { $0.key != 1 }.map { number, others in
      Peer(
        id: id(number), noiseKey: key, signingKey: signing, nickname: "",
        capabilities: [], dialect: .live, neighbours: others.sorted().map(id), neighboursAt: saidAt ?? now,
        announcedAt: 0, heardAt: now, metAt: now, hops: 2)
    }
    return Topology(own: id(1), neighbours: Set(neighbours[1, default: []].map(id)), peers: peers, at: now)
  }

  private func route(_ topology: Topology, to peer: UInt64, but unusable: Set<UInt64> = []) -> [UInt64]? {
    topology.route(from: id(1), to: id(peer)) { !unusable.contains($0.rawValue) }?.map(\.rawValue)
  }

  @Test("A source route is the shortest one, and of equally short ones the one with the smaller peer IDs")
  func shortest() throws {
    let mesh = try topology([(1, 2), (1, 3), (2, 5), (3, 5), (3, 4), (4, 6), (5, 6)])
    #expect(route(mesh, to: 6) == [2, 5])
    #expect(route(mesh, to: 6, but: [2]) == [3, 4])
    #expect(route(mesh, to: 6, but: [5]) == [3, 4])
    #expect(route(mesh, to: 6, but: [2, 3]) == nil)
  }

  @Test("There is no source route to a neighbour, to this node, or to a peer in no neighbour list")
  func none() throws {
    let mesh = try topology([(1, 2), (2, 3)])
    #expect(route(mesh, to: 2) == nil)
    #expect(route(mesh, to: 1) == nil)
    #expect(route(mesh, to: 9) == nil)
  }

  @Test("A link that only one of its two ends lists as a neighbour is not used in source routes")
  func oneSided() throws {
    #expect(route(try topology([(1, 2)], oneSided: [(2, 3)]), to: 3) == nil)
    #expect(route(try topology([(1, 2)], oneSided: [(3, 2)]), to: 3) == nil)
  }

  @Test("A neighbour list older than 60 s is not used in source routes")
  func old() throws {
    let edges: [(UInt64, UInt64)] = [(1, 2), (2, 3)]
    #expect(route(try topology(edges, saidAt: now.advanced(by: .seconds(-60))), to: 3) == [2])
    #expect(route(try topology(edges, saidAt: now.advanced(by: .seconds(-61))), to: 3) == nil)
  }

  @Test("A source route has at most 4 intermediate hops")
  func longest() throws {
    let line: [(UInt64, UInt64)] = (1...6).map { ($0, $0 + 1) }
    #expect(route(try topology(line), to: 6) == [2, 3, 4, 5])
    #expect(route(try topology(line), to: 7) == nil)
  }
}
