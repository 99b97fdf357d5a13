import Bytes
import Common
import Crypto
import Testing

@testable import Thali

@Suite("Presence peers nearby, and the ways to them")
struct NearbyTests {
  typealias Event = NearbyPeers.Event
  typealias Intent = NearbyPeers.Intent

  static let wall = People.now
  private func table() -> NearbyPeers { NearbyPeers(random: SeededRandom(seed: 1)) }
  private func at(_ seconds: Double) -> Instant { .zero.advanced(by: .milliseconds(Int64(seconds * 1000))) }
  private func bluetooth(_ number: UInt64) -> Way { .bluetooth(DeviceAddress(number)) }
  private func network(_ host: UInt32, port: UInt16 = 5000) -> Way {
    .network(Location(address: .v4(host), port: port))
  }
  private func found(_ peer: UInt32) -> AnnouncementVerdict {
    .recognized(
      Recognition(
        peer: PeerID(peer), dialect: .spec, identity: "identity \(peer)",
        expiration: Self.wall.advanced(by: .seconds(3600))))
  }
  private let stranger = AnnouncementVerdict.dropped(.notForUs)

  @Test("A peer's beacons are fetched when a way to it is first discovered, and again only for another version")
  func versions() {
    var table = table()
    let way = bluetooth(1)
    #expect(table.handle(.sighted(way, .generation(7)), at: at(0)) == [.fetch(way)])
    #expect(table.handle(.sighted(way, .generation(7)), at: at(1)) == [])
    #expect(table.handle(.fetched(way, found(1)), at: at(2)) == [.appeared(PeerID(1))])
    #expect(table.handle(.sighted(way, .generation(7)), at: at(3)) == [])
    #expect(table.handle(.sighted(way, .generation(8)), at: at(4)) == [.fetch(way)])
    // A version that is received during a fetch is fetched after it.
    #expect(table.handle(.sighted(way, .generation(9)), at: at(5)) == [])
    #expect(table.handle(.fetched(way, found(1)), at: at(6)) == [.changed(PeerID(1)), .fetch(way)])
  }

  @Test("A generation that wraps around to a smaller number counts as another version")
  func wrapping() {
    var table = table()
    _ = table.handle(.sighted(bluetooth(1), .generation(255)), at: at(0))
    _ = table.handle(.fetched(bluetooth(1), stranger), at: at(0))
    #expect(
      table.isNew(bluetooth(1), .generation(0), at: at(1)) && !table.isNew(bluetooth(1), .generation(255), at: at(1)))
  }

  @Test("A presence peer has several ways, with TCP first, and is lost when its last way is lost")
  func ways() {
    var table = table()
    _ = table.handle(.sighted(bluetooth(1), .generation(0)), at: at(0))
    _ = table.handle(.sighted(network(1), .generation(0)), at: at(0))
    #expect(table.handle(.fetched(bluetooth(1), found(4)), at: at(1)) == [.appeared(PeerID(4))])
    #expect(table.handle(.fetched(network(1), found(4)), at: at(1)) == [.changed(PeerID(4))])
    #expect(table.ways(to: PeerID(4), at: Self.wall).map(\.way) == [network(1), bluetooth(1)])
    #expect(table.lastSighted(PeerID(4)) == at(0) && table.peers == [PeerID(4)])
    // A way whose announcement has expired is not offered for streams.
    #expect(table.ways(to: PeerID(4), at: Self.wall.advanced(by: .seconds(3600))).isEmpty)
    #expect(table.deadline == at(60))
    #expect(table.handle(.timer, at: at(60)) == [.changed(PeerID(4))])
    #expect(table.handle(.timer, at: at(120)) == [.disappeared(PeerID(4))])
    #expect(table.count == 0 && table.deadline == nil)
  }

  @Test(
    "A way without a beacon for this node gives no peer, and a way with a replay does not hide its peer")
  func served() {
    var table = table()
    let way = bluetooth(1)
    _ = table.handle(.sighted(way, .generation(0)), at: at(0))
    _ = table.handle(.fetched(way, found(1)), at: at(0))
    _ = table.handle(.sighted(way, .generation(1)), at: at(1))
    #expect(table.handle(.fetched(way, .dropped(.replayed)), at: at(1)) == [.changed(PeerID(1))])
    _ = table.handle(.sighted(way, .generation(2)), at: at(2))
    #expect(table.handle(.fetched(way, found(2)), at: at(2)) == [.disappeared(PeerID(1)), .appeared(PeerID(2))])
    for (number, verdict) in [stranger, nil].enumerated() {
      _ = table.handle(.sighted(way, .generation(UInt8(10 + number))), at: at(3))
      #expect(table.handle(.fetched(way, verdict), at: at(3)) == (number == 0 ? [.disappeared(PeerID(2))] : []))
    }
  }

  @Test("The pause after failed fetches doubles from 2 s to 5 min, and a success ends it")
  func backoff() {
    var table = table()
    let way = bluetooth(1)
    var now = 0.0
    var fetches = table.handle(.sighted(way, .generation(0)), at: at(now))
    for pause in [2.0, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
      #expect(fetches == [.fetch(way)])
      #expect(table.handle(.failed(way, retryAfter: nil), at: at(now)) == [])
      // The way stays sighted, and another version does not end the pause.
      for second in stride(from: 0.0, to: pause, by: 20) {
        let version = BeaconVersion.generation(UInt8(Int(now + second) % 256))
        #expect(table.handle(.sighted(way, version), at: at(now + second)) == [])
      }
      #expect(table.deadline == at(now + pause))
      now += pause
      fetches = table.handle(.timer, at: at(now))
    }
    _ = table.handle(.fetched(way, nil), at: at(now))
    _ = table.handle(.sighted(way, .generation(77)), at: at(now))
    _ = table.handle(.failed(way, retryAfter: nil), at: at(now))
    #expect(table.deadline == at(now + 2))
  }

  @Test("After a response with Retry-After beacons are fetched again at that time, after 2 s to 5 min")
  func retryAfter() {
    for (asked, pause) in [(1.0, 2.0), (30, 30), (3600, 300)] {
      var table = table()
      let way = network(1)
      _ = table.handle(.sighted(way, .generation(0)), at: at(0))
      _ = table.handle(.failed(way, retryAfter: .seconds(asked)), at: at(0))
      for second in stride(from: 50.0, to: pause, by: 50) {
        _ = table.handle(.sighted(way, .generation(0)), at: at(second))
      }
      #expect(table.handle(.timer, at: at(pause - 0.001)) == [])
      #expect(table.handle(.timer, at: at(pause)) == [.fetch(way)])
    }
  }

  @Test("One fetch of beacons runs over Bluetooth at a time, and eight over the network")
  func parallel() {
    var table = table()
    for number: UInt64 in 0..<5 { _ = table.handle(.sighted(bluetooth(number), .generation(0)), at: at(0)) }
    var running = 0
    for host: UInt32 in 0..<20 {
      running += table.handle(.sighted(network(host), .generation(0)), at: at(0)).count
    }
    #expect(running == 8)
    // The end of a fetch starts the next one.
    let next =
      table.handle(.fetched(network(0), stranger), at: at(1)).count
      + table.handle(.fetched(network(1), nil), at: at(1)).count
    #expect(next <= 2 && next >= 1)
  }

  @Test("A fetch whose end is not reported fails after 30 s over Bluetooth and 10 s over the network")
  func lostFetch() {
    for (way, seconds) in [(bluetooth(1), 30.0), (network(1), 10)] {
      var table = table()
      _ = table.handle(.sighted(way, .generation(0)), at: at(0))
      #expect(table.deadline == at(seconds))
      #expect(table.handle(.timer, at: at(seconds)) == [])
      #expect(table.deadline == at(seconds + 2))
      #expect(table.handle(.fetched(way, found(1)), at: at(seconds)) == [], "it comes too late")
      #expect(table.handle(.timer, at: at(seconds + 2)) == [.fetch(way)])
    }
  }

  @Test("Beacons of known peers are fetched before those of strangers")
  func order() {
    var table = table()
    _ = table.handle(.sighted(bluetooth(1), .generation(0)), at: at(0))
    _ = table.handle(.fetched(bluetooth(1), found(1)), at: at(0))
    for number: UInt64 in 2..<40 { _ = table.handle(.sighted(bluetooth(number), .generation(0)), at: at(1)) }
    _ = table.handle(.sighted(bluetooth(1), .generation(1)), at: at(2))
    var running = bluetooth(2)
    for number: UInt64 in 2..<40 where table.handle(.fetched(bluetooth(number), nil), at: at(3)) != [] {
      running = bluetooth(number)
      break
    }
    #expect(running != bluetooth(1))
    #expect(!table.isNew(bluetooth(1), .generation(1), at: at(4)))
    #expect(table.handle(.fetched(bluetooth(1), found(1)), at: at(4)).first == .changed(PeerID(1)), "its fetch runs")
  }

  @Test("200 ways to peers of each medium are stored, 4 per address, and known peers' ways are not evicted")
  func bounded() {
    var table = table()
    _ = table.handle(.sighted(bluetooth(1), .generation(0)), at: at(0))
    _ = table.handle(.fetched(bluetooth(1), found(1)), at: at(0))
    for number: UInt64 in 2..<2000 { _ = table.handle(.sighted(bluetooth(number), .generation(0)), at: at(1)) }
    #expect(table.count == 200 && table.peers == [PeerID(1)])
    for port: UInt16 in 2000..<2010 { _ = table.handle(.sighted(network(1, port: port), .generation(0)), at: at(1)) }
    #expect(table.count == 204 && table.ignoredWays == 6)
    for host: UInt32 in 2..<1000 { _ = table.handle(.sighted(network(host), .generation(0)), at: at(1)) }
    #expect(table.count == 400)
  }

  @Test("If all stored ways lead to known peers, a new way to a peer is ignored")
  func full() {
    var table = table()
    for number: UInt64 in 0..<200 {
      _ = table.handle(.sighted(bluetooth(number), .generation(0)), at: at(0))
      _ = table.handle(.fetched(bluetooth(number), found(UInt32(number))), at: at(0))
    }
    #expect(table.handle(.sighted(bluetooth(999), .generation(0)), at: at(1)) == [])
    #expect(table.ignoredWays == 1 && table.peers.count == 200)
  }

  @Test("The beacons of a client without a version are fetched once a minute")
  func unknownVersion() {
    var table = table()
    let way = bluetooth(5)
    #expect(table.handle(.sighted(way, .unknown), at: at(0)) == [.fetch(way)])
    _ = table.handle(.fetched(way, stranger), at: at(1))
    #expect(table.handle(.sighted(way, .unknown), at: at(2)) == [])
    #expect(table.handle(.sighted(way, .unknown), at: at(50)) == [])
    #expect(table.handle(.sighted(way, .unknown), at: at(61)) == [.fetch(way)])
  }

  @Test("An SSDP byebye counts only from the peer's own address and for the peer's last name")
  func left() {
    var table = table()
    var random = SeededRandom(seed: 4)
    let (name, other) = (ServiceName(randomFrom: &random), ServiceName(randomFrom: &random))
    _ = table.handle(.sighted(network(1), .name(name)), at: at(0))
    _ = table.handle(.fetched(network(1), found(1)), at: at(0))
    #expect(table.handle(.left(name, .v4(2)), at: at(1)) == [])
    #expect(table.handle(.left(other, .v4(1)), at: at(1)) == [])
    #expect(table.handle(.left(name, .v4(1)), at: at(1)) == [.disappeared(PeerID(1))])
  }
}
