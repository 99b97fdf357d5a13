import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

@Suite("Repeated announces without changes")
struct RefreshTests {
  /// Ann, and known strangers with links to her. She has requested sync from each of them.
  private func stage(_ strangers: [Stranger]) -> (hall: MeshHall, links: [LinkID]) {
    var hall = MeshHall()
    hall.add(["ann"])
    let links = strangers.map { hall.connect(stranger: $0, to: 0) }
    hall.pass(.seconds(2))
    return (hall, links)
  }

  /// Number of a peer's announces that were sent on a link.
  private func announces(_ hall: MeshHall, of peer: PeerID, on link: LinkID) -> Int {
    (hall.nodes[0].sent[link] ?? []).count { $0[1] == MessageType.announce.rawValue && $0[14..<22] == peer.bytes[...] }
  }

  @Test(
    "An unchanged announce is relayed 3 s after the last relayed one, and its time is stored at once")
  func bursts() {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    let before = announces(hall, of: cem.id, on: links[1])
    #expect(before == 1)
    hall.inject(cem.announce(at: hall.time), on: links[0], to: 0)
    #expect(hall.nodes[0].engine.peer(cem.id)?.announcedAt == hall.time)
    hall.pass(.milliseconds(500))
    #expect(announces(hall, of: cem.id, on: links[1]) == before)
    hall.pass(.seconds(3))
    hall.inject(cem.announce(at: hall.time), on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(announces(hall, of: cem.id, on: links[1]) == before + 1)
    // An announce with new content is relayed at once.
    let news = cem.announce(at: hall.time, capabilities: Capabilities(rawValue: 1))
    hall.inject(news, on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(announces(hall, of: cem.id, on: links[1]) == before + 2)
    #expect(hall.nodes[0].engine.gossip.archive.announce(of: cem.id)?.bytes == news)
  }

  @Test("Three changed announces of a peer are relayed at once, and further ones one every 3 s")
  func news() {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    var said: UInt64 = 0
    // Number of announces relayed within this number of seconds, while ten arrive in each second.
    func goOn(_ seconds: Int) -> Int {
      let before = announces(hall, of: cem.id, on: links[1])
      for _ in 0..<seconds * 10 {
        said += 1
        hall.inject(cem.announce(at: hall.time, capabilities: Capabilities(rawValue: said)), on: links[0], to: 0)
        hall.pass(.milliseconds(100))
      }
      hall.pass(.milliseconds(500))
      return announces(hall, of: cem.id, on: links[1]) - before
    }
    hall.pass(.seconds(9))
    #expect(goOn(3) == 3)
    #expect(hall.nodes[0].engine.peer(cem.id)?.capabilities == Capabilities(rawValue: said), "here each one counts")
    #expect((9...11).contains(goOn(30)))
    hall.pass(.seconds(9))
    #expect(goOn(3) == 3, "after a rest there are three again")
  }

  @Test("Of a peer that leaves and returns every 100 ms at most 5 of 100 packets are relayed in 10 s")
  func comingAndGoing() {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    hall.pass(.seconds(9))
    let before = hall.nodes[0].sent[links[1]]?.count ?? 0
    for _ in 0..<50 {
      hall.inject(cem.announce(at: hall.time), on: links[0], to: 0)
      hall.pass(.milliseconds(100))
      hall.inject(cem.packet(.leave, [], at: hall.time), on: links[0], to: 0)
      hall.pass(.milliseconds(100))
    }
    let passedOn = (hall.nodes[0].sent[links[1]] ?? []).dropFirst(before).count { $0[14..<22] == cem.id.bytes[...] }
    #expect((1...5).contains(passedOn), "\(passedOn) of a hundred in ten seconds")
  }

  @Test("A forged unchanged announce is dropped, and does not block the valid one")
  func forged() {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    hall.pass(.seconds(4))
    let known = hall.nodes[0].engine.peer(cem.id)?.announcedAt
    let right = cem.announce(at: hall.time, timeToLive: 5)
    for forged in [right.flipped(at: -1), Stranger(cem, signingWith: 9).announce(at: hall.time, timeToLive: 5)] {
      hall.inject(forged, on: links[1], to: 0)
      hall.pass(.milliseconds(200))
      #expect(hall.nodes[0].engine.peer(cem.id)?.announcedAt == known)
    }
    #expect(hall.nodes[0].engine.counters.badSignatures == 1)
    hall.inject(right, on: links[1], to: 0)
    #expect(hall.nodes[0].engine.peer(cem.id)?.announcedAt == hall.time - 400)
    #expect(hall.nodes[0].engine.gossip.archive.announce(of: cem.id)?.bytes == right)
  }

  @Test("After a node has stopped, no work that was due before is done")
  func stopped() {
    let (hall, _) = stage([Stranger(1)])
    let actions = hall.nodes[0].engine.handle(
      .stop, at: hall.now.advanced(by: .seconds(3600)), time: hall.time + 3_600_000)
    let lost = actions.filter { if case .gone = $0 { true } else { false } }
    #expect(lost.isEmpty && !actions.isEmpty)
  }

  @Test("An outdated announce is relayed only if it changes which peer a link belongs to")
  func overtaken() {
    let (cem, dea, eli) = (Stranger(1), Stranger(2), Stranger(3))
    var (hall, links) = stage([cem, dea, eli])
    hall.pass(.seconds(4))
    let old = cem.announce(at: hall.time - 10, timeToLive: 5)
    hall.inject(cem.announce(at: hall.time, timeToLive: 5), on: links[1], to: 0)
    hall.pass(.milliseconds(500))
    let before = announces(hall, of: cem.id, on: links[2])
    hall.inject(old, on: links[1], to: 0)
    // The announce arrives again, from a link that claims to be the sender's own.
    hall.inject(cem.announce(at: hall.time - 700), on: links[0], to: 0)
    hall.pass(.milliseconds(500))
    #expect(announces(hall, of: cem.id, on: links[2]) == before)
    #expect(hall.nodes[0].engine.counters.oldAnnounces == 2)
  }

  @Test("An announce older than a peer's leave does not bring the peer back")
  func left() {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    let (old, newest) = (hall.time - 100, hall.time)
    hall.inject(cem.announce(at: newest), on: links[0], to: 0)
    hall.inject(cem.packet(.leave, [], at: newest + 1), on: links[0], to: 0)
    #expect(hall.nodes[0].engine.peer(cem.id) == nil)
    hall.inject(cem.announce(at: newest, timeToLive: 0, isSyncAnswer: true), on: links[1], to: 0)
    hall.inject(cem.announce(at: old, timeToLive: 0, isSyncAnswer: true), on: links[1], to: 0)
    hall.inject(cem.announce(at: old), on: links[0], to: 0)
    #expect(hall.nodes[0].engine.peer(cem.id) == nil)
    hall.inject(cem.announce(at: newest + 2), on: links[0], to: 0)
    #expect(hall.nodes[0].engine.peer(cem.id) != nil)
  }

  @Test("An announce refreshes the time of the sender's neighbour list only if it contains the list")
  func neighbours() throws {
    var table = PeerTable()
    let cem = Stranger(1)
    func announcement(_ neighbours: [PeerID]?) throws -> Announcement {
      try Announcement(
        nickname: "cem", noiseKey: cem.noiseKey.publicKey, signingKey: cem.signingKey.publicKey, neighbours: neighbours)
    }
    let near = PeerID(rawValue: 7)
    _ = try table.learn(try announcement([near]), at: 1, hops: 1, now: .zero)
    let later = Instant.zero.advanced(by: .seconds(30))
    _ = table.refresh(cem.id, at: 2, hops: 1, burst: .seconds(3), now: later)
    #expect(table[cem.id]?.neighboursAt == later && table[cem.id]?.neighbours == [near])
    // An announce without a list of neighbours does not change the known neighbours.
    _ = try table.learn(try announcement(nil), at: 3, hops: 1, now: later)
    _ = table.refresh(cem.id, at: 4, hops: 1, burst: .seconds(3), now: later.advanced(by: .seconds(30)))
    #expect(table[cem.id]?.neighboursAt == later && table[cem.id]?.announcedAt == 4)
  }

  @Test(
    "With 256 known peers a node sends 12 to 22 announces in 4 min, and with 257 peers 4 to 7",
    arguments: [(256, 12...22), (257, 4...7)])
  func crowd(peers: Int, range: ClosedRange<Int>) throws {
    var (hall, links) = stage([Stranger(1)])
    for number in 0..<peers - 1 {
      let other = Stranger(UInt64(100 + number))
      let announcement = try Announcement(
        nickname: "other", noiseKey: other.noiseKey.publicKey, signingKey: other.signingKey.publicKey)
      let view = try PacketView(other.announce(at: hall.time, timeToLive: 5))
      let arrival = Arrival(view: view, link: links[0], isReassembled: false, isAnswer: false)
      _ = try hall.nodes[0].engine.neighbourhood.learn(announcement, at: hall.time, arrival, now: hall.now)
    }
    hall.handle(.announce, at: 0)
    let before = announces(hall, of: hall.nodes[0].id, on: links[0])
    hall.pass(.seconds(240))
    #expect(range.contains(announces(hall, of: hall.nodes[0].id, on: links[0]) - before))
  }

  @Test("The cached deadline of a node equals a newly computed one after every event and call")
  func deadline() throws {
    let (cem, dea) = (Stranger(1), Stranger(2))
    var (hall, links) = stage([cem, dea])
    func isRight(_ engine: MeshEngine) -> Bool {
      var anew = engine
      anew.isDueKnown = false
      return anew.deadline == engine.deadline
    }
    let line = cem.line("hello", at: hall.time)
    for link in links {
      hall.inject(line, on: link, to: 0)
      #expect(isRight(hall.nodes[0].engine))
    }
    #expect(hall.nodes[0].engine.counters.duplicates > 0)
    hall.pass(.seconds(1))
    var speaker = hall.nodes[0].engine
    _ = speaker.say(LimitStage.text(1500), at: hall.now, time: hall.time)
    #expect(isRight(speaker) && speaker.transmitter.paced.count > 0)
    hall.pass(.seconds(1))
    try hall.tell("hello", to: cem.id, as: 1, at: 0)
    #expect(isRight(hall.nodes[0].engine))
    hall.pass(.seconds(1))
    let alone = hall.nodes[0].engine
    var engine = alone
    _ = try engine.ping(dea.id, as: 1, at: hall.now, time: hall.time)
    #expect(isRight(engine))
    engine = alone
    engine.configuration.isMonitorStrict = true
    #expect(isRight(engine))
    engine = alone
    _ = try engine.challenge(dea.id, signingKey: dea.signingKey.publicKey, at: hall.now, time: hall.time)
    #expect(isRight(engine))
  }

  @Test("A node does not wake up to relay a packet whose relay was cancelled by copies")
  func superfluous() throws {
    let (cem, dea, eve) = (Stranger(1), Stranger(2), Stranger(3))
    var (hall, links) = stage([cem, dea])
    hall.inject(eve.announce(at: hall.time, timeToLive: 6), on: links[0], to: 0)
    hall.pass(.seconds(5))
    let before = hall.nodes[0].engine.counters.superfluous
    let again = eve.announce(at: hall.time, timeToLive: 6)
    hall.inject(again, on: links[0], to: 0)
    let relay = try #require(hall.nodes[0].engine.deadline)
    #expect(hall.nodes[0].engine.pending.latest == relay)
    hall.inject(again, on: links[1], to: 0)
    #expect(hall.nodes[0].engine.counters.superfluous == before + 1)
    let next = try #require(hall.nodes[0].engine.deadline)
    #expect(next > relay)
  }
}
