import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("A mesh node in a large crowd")
struct CrowdTests {
  private let time: UInt64 = 1_800_000_000_000

  private func item(_ type: MessageType, from sender: UInt64, age: UInt64) throws -> GossipArchive.Item {
    let packet = Packet(
      type: type, timestamp: time - age, sender: PeerID(rawValue: sender), payload: Array("\(sender) \(age)".utf8))
    return GossipArchive.Item(
      bytes: try packet.encoded(), id: PacketID(packet), type: type, sender: packet.sender, timestamp: packet.timestamp)
  }

  @Test(
    "One sync request asks for all types if one filter suffices; otherwise every fourth asks for announces"
  )
  func requests() throws {
    var archive = GossipArchive()
    for peer in 0..<100 { _ = archive.keep(try item(.announce, from: UInt64(peer), age: 1000)) }
    for line in 0..<100 { _ = archive.keep(try item(.message, from: 1, age: UInt64(20_000 + line))) }
    for round in 0..<8 {
      #expect(archive.requests(for: .usual, round: round, at: time).map(\.types) == [.usual])
    }
    // Many messages of one sender are not a crowd.
    for line in 100..<600 { _ = archive.keep(try item(.message, from: 1, age: UInt64(20_000 + line))) }
    #expect(archive.requests(for: .usual, round: 1, at: time).map(\.types) == [.usual])
    for peer in 100..<800 { _ = archive.keep(try item(.announce, from: UInt64(peer), age: UInt64(peer))) }
    for round in 0..<8 {
      let requests = archive.requests(for: .usual, round: round, at: time)
      #expect(requests.map(\.types) == (round.isMultiple(of: 4) ? [.message, .announce] : [.message]))
      // The filter covers messages alone, so the request includes old ones.
      #expect(requests.first?.since ?? 0 < time - 20_200)
    }
    let fragments = archive.requests(for: [.announce, .message, .fragment], round: 1, at: time)
    #expect(fragments.map(\.types) == [[.message, .fragment]])
    #expect(archive.requests(for: .announce, round: 1, at: time).map(\.types) == [.announce])
  }

  @Test("The start time of a sync request limits announces only if the request asks for no messages")
  func beginning() throws {
    var archive = GossipArchive()
    let (old, new) = (try item(.announce, from: 1, age: 30_000), try item(.announce, from: 2, age: 10_000))
    for announce in [old, new] { _ = archive.keep(announce) }
    func given(_ types: SyncTypes) throws -> [GossipArchive.Item] {
      archive.missing(
        try SyncRequest(filter: SyncFilter([PacketID]()), types: types, since: time - 20_000), at: time)
    }
    #expect(try given(.announce) == [new])
    #expect(try given(.usual) == [old, new])
  }

  @Test("A sync answer contains the requested message although 900 announces are stored")
  func message() throws {
    var (full, other) = (GossipArchive(), GossipArchive())
    for peer in 0..<900 {
      let announce = try item(.announce, from: UInt64(peer), age: UInt64(10 * peer))
      _ = full.keep(announce)
      _ = other.keep(announce)
    }
    let line = try item(.message, from: 5, age: 50_000)
    _ = full.keep(line)
    let given = other.requests(for: .usual, round: 1, at: time).flatMap { full.missing($0, at: time) }
    #expect(given.contains(line))
    #expect(given.count <= 2)
  }

  @Test("A link on which nothing is received is cut after 15 s even if other links are active")
  func silence() {
    var hall = MeshHall()
    hall.add(["ann"])
    let (quiet, loud) = (hall.connect(to: 0), hall.connect(stranger: Stranger(1), to: 0))
    hall.pass(.milliseconds(14_999))
    hall.inject(Stranger(1).line("still here", at: hall.time), on: loud, to: 0)
    #expect(hall.nodes[0].cuts.isEmpty)
    hall.pass(.milliseconds(1))
    #expect(hall.nodes[0].cuts.map(\.0) == [quiet])
    hall.pass(.milliseconds(329_998))
    #expect(hall.nodes[0].cuts.map(\.0) == [quiet])
    hall.pass(.milliseconds(1))
    #expect(hall.nodes[0].cuts.map(\.0) == [quiet, loud])
  }

  @Test("The signature checker of the mesh engine can be replaced, and the engine uses the replacement")
  func signatures() {
    struct Nobody: SignatureChecking {
      func holds(_ signature: ArraySlice<UInt8>, of message: [UInt8], by key: Ed25519.PublicKey) -> Bool { false }
    }
    var random = SeededRandom(seed: 1)
    for (isTrusting, peers) in [(true, 1), (false, 0)] {
      let identity = MeshEngine.Identity(randomFrom: &random)
      let configuration = MeshEngine.Configuration(nickname: "ann")
      var engine =
        isTrusting
        ? MeshEngine(identity: identity, configuration: configuration, random: random)
        : MeshEngine(identity: identity, configuration: configuration, random: random, signatures: Nobody())
      _ = engine.handle(.start, at: .zero, time: time)
      _ = engine.handle(.linkOpened(LinkID(1), frameLimit: 512, isOurs: true), at: .zero, time: time)
      _ = engine.handle(.received(Stranger(3).announce(at: time), on: LinkID(1)), at: .zero, time: time)
      #expect(engine.peers.count == peers)
      #expect(engine.holdings.peers == peers && engine.holdings.announces == peers)
    }
  }
}
