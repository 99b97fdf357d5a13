import Bytes
import Common
import Crypto
import Testing

@testable import Thali

@Suite("Discovery of presence peers on the local network")
struct DiscoveryTests {
  static let other = NetworkAddress.v4(0x0A00_0002)

  private func discovery() -> LocalDiscovery { LocalDiscovery(random: SeededRandom(seed: 1)) }
  private func at(_ seconds: Double) -> Instant { .zero.advanced(by: .milliseconds(Int64(seconds * 1000))) }
  private func name(_ seed: UInt64) -> ServiceName {
    var random = SeededRandom(seed: seed)
    return ServiceName(randomFrom: &random)
  }
  private func alive(_ name: ServiceName, _ address: NetworkAddress = other) -> [UInt8] {
    SSDPMessage.alive(name, location: Location(address: address, port: 5000).url).bytes(for: .ipv4)
  }

  @Test("A name (USN) of a node is a UUID of version 4, and no two are equal")
  func names() {
    var random = SeededRandom(seed: 3)
    let names = (0..<100).map { _ in ServiceName(randomFrom: &random) }
    #expect(Set(names).count == 100)
    for name in names {
      let digits = Array(name.text.dropFirst(9))
      #expect(digits[14] == "4" && "89ab".contains(digits[19]) && ServiceName(name.text) == name)
    }
  }

  @Test("Presence is announced by SSDP every 50 s, and every 500 ms while a person uses the machine")
  func periods() {
    var discovery = discovery()
    let name = name(1)
    #expect(discovery.deadline == nil)
    #expect(discovery.handle(.publish(name), at: at(0)) == [.announce(name)])
    #expect(discovery.deadline == at(50))
    #expect(discovery.handle(.timer, at: at(49)) == [])
    #expect(discovery.handle(.timer, at: at(50)) == [.announce(name)])
    #expect(discovery.handle(.foreground(true), at: at(51)) == [.announce(name)])
    #expect(discovery.deadline == at(51.5))
    #expect(discovery.handle(.timer, at: at(51.5)) == [.announce(name)])
    #expect(discovery.handle(.foreground(false), at: at(52)) == [])
  }

  @Test("New beacons are announced at once under a new name, and nothing is announced after they end")
  func changes() {
    var discovery = discovery()
    _ = discovery.handle(.publish(name(1)), at: at(0))
    #expect(discovery.handle(.publish(name(2)), at: at(1)) == [.announce(name(2))])
    #expect(discovery.handle(.publish(name(2)), at: at(1)) == [])
    #expect(discovery.handle(.publish(nil), at: at(2)) == [.withdraw(name(2))])
    #expect(discovery.deadline == nil && discovery.handle(.publish(nil), at: at(3)) == [])
  }

  @Test("A network that comes up gets a search and an announcement, and no second search within 5 min")
  func joined() {
    var discovery = discovery()
    #expect(discovery.handle(.joined, at: at(0)) == [.search(nil)])
    _ = discovery.handle(.publish(name(1)), at: at(1))
    #expect(discovery.handle(.joined, at: at(299)) == [.announce(name(1))])
    #expect(discovery.handle(.joined, at: at(300)) == [.search(name(1)), .announce(name(1))])
  }

  @Test("A presence peer is found by its SSDP announcement or answer, and removed only by its own byebye")
  func found() {
    var discovery = discovery()
    let location = Location(address: Self.other, port: 5000)
    let sighted = [LocalDiscovery.Intent.sighted(location, name(9))]
    #expect(discovery.handle(.received(alive(name(9)), from: Self.other, port: 1900), at: at(0)) == sighted)
    let answer = SSDPMessage.response(name(9), location: location.url).bytes(for: .ipv4)
    #expect(discovery.handle(.received(answer, from: Self.other, port: 1900), at: at(0)) == sighted)
    let byebye = SSDPMessage.byebye(name(9)).bytes(for: .ipv4)
    #expect(
      discovery.handle(.received(byebye, from: Self.other, port: 1900), at: at(0)) == [.left(name(9), Self.other)])
  }

  @Test("This machine's last ten SSDP names are ignored, from whatever address they arrive")
  func ownNames() {
    var discovery = discovery()
    for seed in 1...12 { _ = discovery.handle(.publish(name(UInt64(seed))), at: at(0)) }
    for seed in 3...12 {
      #expect(discovery.handle(.received(alive(name(UInt64(seed))), from: Self.other, port: 1900), at: at(0)) == [])
      let search = SSDPMessage.search(name(UInt64(seed)), maximumWait: 1).bytes(for: .ipv4)
      #expect(discovery.handle(.received(search, from: Self.other, port: 1900), at: at(0)) == [])
    }
    #expect(discovery.deadline == at(50))
    #expect(discovery.handle(.received(alive(name(1)), from: Self.other, port: 1900), at: at(0)) != [])
  }

  @Test("An SSDP location at another address than the sender's is not used, and is counted by its reason")
  func foreignLocation() {
    var discovery = discovery()
    for (url, refusal) in [
      ("http://10.0.0.3:5000/", Location.Refusal.otherHost), ("https://10.0.0.2:5000/", .notHTTP),
      ("http://10.0.0.2:80/", .lowPort),
    ] {
      let datagram = SSDPMessage.alive(name(1), location: url).bytes(for: .ipv4)
      #expect(discovery.handle(.received(datagram, from: Self.other, port: 1900), at: at(0)) == [])
      #expect(discovery.counters[refusal] == 1)
    }
    _ = discovery.handle(.received([1], from: Self.other, port: 1900), at: at(0))
    #expect(discovery.counters[.malformed] == 1)
    #expect(Set(discovery.counters.tallies.map(\.name)).count == discovery.counters.tallies.count)
  }

  @Test("An SSDP search is answered once, within the time that the search allows")
  func searches() {
    var discovery = discovery()
    let search = SSDPMessage.search(nil, maximumWait: 3).bytes(for: .ipv4)
    #expect(discovery.handle(.received(search, from: Self.other, port: 4000), at: at(0)) == [])
    #expect(discovery.deadline == nil, "nothing is announced, so nothing is answered")
    _ = discovery.handle(.publish(name(1)), at: at(0))
    for _ in 0..<3 { _ = discovery.handle(.received(search, from: Self.other, port: 4000), at: at(0)) }
    let due = discovery.deadline
    #expect(due.map { $0 <= at(3) } ?? false)
    let answer = LocalDiscovery.Intent.answer(name(1), to: Self.other, port: 4000)
    #expect(discovery.handle(.timer, at: due ?? .zero) == [answer])
    #expect(discovery.deadline == at(50))
  }

  @Test("More than 100 SSDP datagrams in a second are not read, and at most 32 searchers wait for an answer")
  func floods() {
    var discovery = discovery()
    _ = discovery.handle(.publish(name(1)), at: at(0))
    let search = SSDPMessage.search(nil, maximumWait: 5).bytes(for: .ipv4)
    for host: UInt32 in 0..<150 {
      _ = discovery.handle(.received(search, from: .v4(0x0A00_0000 + host), port: 4000), at: at(0))
    }
    #expect(discovery.counters.tooMany == 50)
    let answers = discovery.handle(.timer, at: at(5))
    #expect(answers.count == 32)
  }

  @Test("A source of more than 25 SSDP datagrams in a second does not use up those of other sources")
  func shares() {
    var discovery = discovery()
    for _ in 0..<1000 { _ = discovery.handle(.received([1], from: .v4(7), port: 4000), at: at(0)) }
    #expect(discovery.counters.tooMany == 975 && discovery.counters[.malformed] == 25)
    #expect(discovery.handle(.received(alive(name(9)), from: Self.other, port: 1900), at: at(0)).count == 1)
    for _ in 0..<1000 { _ = discovery.handle(.received([1], from: .v4(7), port: 4000), at: at(1)) }
    #expect(discovery.counters[.malformed] == 50)
    // The shares of more addresses than can be stored do not exceed the total.
    for host: UInt32 in 0..<5000 {
      _ = discovery.handle(.received([1], from: .v4(0x0A00_0000 + host), port: 4000), at: at(2))
    }
    #expect(discovery.counters[.malformed] == 150)
  }

  @Test("If unicast fails for three addresses and succeeds for none, SSDP announcements pause for 5 min")
  func unicast() {
    var discovery = discovery()
    _ = discovery.handle(.publish(name(1)), at: at(0))
    func failed(_ host: UInt32, _ seconds: Double) {
      _ = discovery.handle(.fetched(.v4(host), succeeded: false), at: at(seconds))
    }
    for _ in 0..<5 { failed(1, 1) }
    failed(2, 1)
    #expect(discovery.pausedUntil(at: at(1)) == nil)
    failed(3, 2)
    #expect(discovery.pausedUntil(at: at(2)) == at(302))
    #expect(discovery.handle(.timer, at: at(50)) == [] && discovery.deadline == at(302))
    #expect(discovery.handle(.publish(name(2)), at: at(60)) == [])
    #expect(discovery.handle(.timer, at: at(302)) == [.announce(name(2))])
    #expect(discovery.counters.unicastPauses == 1)
  }

  @Test("Three unicast failures and a success cause no pause of announcements, and a success ends the pause")
  func unicastWorks() {
    var discovery = discovery()
    _ = discovery.handle(.publish(name(1)), at: at(0))
    _ = discovery.handle(.fetched(.v4(9), succeeded: true), at: at(0))
    for host: UInt32 in 1...5 { _ = discovery.handle(.fetched(.v4(host), succeeded: false), at: at(100)) }
    #expect(discovery.pausedUntil(at: at(100)) == nil)
    for host: UInt32 in 1...3 { _ = discovery.handle(.fetched(.v4(host), succeeded: false), at: at(400)) }
    #expect(discovery.pausedUntil(at: at(400)) != nil)
    #expect(discovery.handle(.fetched(.v4(9), succeeded: true), at: at(401)) == [.announce(name(1))])
    #expect(discovery.pausedUntil(at: at(401)) == nil)
  }

  @Test("A connection from a peer ends the pause of announcements, and prevents the next for 5 min")
  func connected() {
    var discovery = discovery()
    _ = discovery.handle(.publish(name(1)), at: at(0))
    func fail(_ seconds: Double) {
      for host: UInt32 in 1...3 { _ = discovery.handle(.fetched(.v4(host), succeeded: false), at: at(seconds)) }
    }
    fail(1)
    #expect(discovery.handle(.timer, at: at(50)) == [] && discovery.pausedUntil(at: at(50)) == at(301))
    #expect(discovery.handle(.connected, at: at(60)) == [.announce(name(1))])
    #expect(discovery.deadline == at(110))
    #expect(discovery.handle(.connected, at: at(61)) == [], "a connection without a pause changes nothing")
    fail(100)
    #expect(discovery.pausedUntil(at: at(100)) == nil)
    fail(361)
    #expect(discovery.pausedUntil(at: at(361)) == at(661))
  }

  @Test("An SSDP search is answered even while announcements are paused")
  func answerInPause() {
    var discovery = discovery()
    _ = discovery.handle(.publish(name(1)), at: at(0))
    for host: UInt32 in 1...3 { _ = discovery.handle(.fetched(.v4(host), succeeded: false), at: at(1)) }
    let search = SSDPMessage.search(nil, maximumWait: 1).bytes(for: .ipv4)
    _ = discovery.handle(.received(search, from: .v4(7), port: 4000), at: at(2))
    #expect(discovery.handle(.timer, at: at(4)) == [.answer(name(1), to: .v4(7), port: 4000)])
  }
}

@Suite("Limits of private presence against floods")
struct AdmissionTests {
  private func at(_ seconds: Double) -> Instant { .zero.advanced(by: .milliseconds(Int64(seconds * 1000))) }

  @Test("Over 50 new announcements a second pause discovery for 30 s, then twice as long, up to 10 min")
  func gate() {
    var gate = AnnouncementGate()
    var now = 0.0
    for pause in [30.0, 60, 120, 240, 480, 600, 600] {
      for _ in 0..<50 { #expect(gate.admit(at: at(now)) == true) }
      #expect(gate.admit(at: at(now)) == false)
      #expect(gate.pausedUntil(at: at(now)) == at(now + pause))
      #expect(gate.admit(at: at(now + pause - 0.001)) == false)
      now += pause
      #expect(gate.pausedUntil(at: at(now)) == nil)
    }
    #expect(gate.pauses == 7 && gate.ignored == 14)
    // After ten minutes without a pause, the next pause lasts 30 s again.
    now += 600
    for _ in 0..<51 { _ = gate.admit(at: at(now)) }
    #expect(gate.pausedUntil(at: at(now)) == at(now + 30))
  }

  @Test("49 announcements in each second never pause discovery")
  func belowLimit() {
    var gate = AnnouncementGate()
    for second in 0..<120 {
      for _ in 0..<49 { #expect(gate.admit(at: at(Double(second))) == true) }
    }
    #expect(gate.pauses == 0)
  }

  @Test("At most 30 RFCOMM links for presence are open, and one address may open 5 in a minute")
  func rfcomm() {
    var links = ConnectionLimit<Int>.rfcommLinks
    for _ in 0..<5 { #expect(opens(&links, 1, 0) == nil) }
    #expect(opens(&links, 1, 0) == .tooFast)
    for _ in 0..<5 { links.close(1) }
    #expect(opens(&links, 1, 1) == .tooFast, "a closed link counts for its minute")
    for address in 2...31 { #expect(opens(&links, address, 1) == nil) }
    #expect(links.count == 30 && opens(&links, 99, 1) == .tooMany)
    links.close(2)
    #expect(opens(&links, 99, 1) == nil)
    links.close(1)
    #expect(links.count == 30, "an address without a link has nothing to close")
  }

  @Test("At most 64 HTTP connections for beacons are open, 4 of them from one address")
  func http() {
    var connections = ConnectionLimit<Int>.httpConnections
    for _ in 0..<4 { #expect(opens(&connections, 1, 0) == nil) }
    #expect(opens(&connections, 1, 0) == .tooManyOfAddress)
    connections.close(1)
    #expect(opens(&connections, 1, 0) == nil)
    for address in 2...61 { #expect(opens(&connections, address, 0) == nil) }
    #expect(opens(&connections, 100, 0) == .tooMany)
    for address in 2...61 { connections.close(address) }
    for _ in 0..<4 { connections.close(1) }
    #expect(connections.count == 0 && connections.addresses == 0)
  }

  @Test("At most 32 presence TLS handshakes are open, 4 per address, and an address may begin 5 a second")
  func tls() {
    var handshakes = ConnectionLimit<Int>.tlsHandshakes
    for _ in 0..<4 { #expect(opens(&handshakes, 1, 0) == nil) }
    #expect(opens(&handshakes, 1, 0) == .tooManyOfAddress)
    handshakes.close(1)
    #expect(opens(&handshakes, 1, 0) == nil)
    handshakes.close(1)
    #expect(opens(&handshakes, 1, 0) == .tooFast && opens(&handshakes, 1, 1) == nil)
    for address in 2...29 { #expect(opens(&handshakes, address, 1) == nil) }
    #expect(opens(&handshakes, 50, 1) == .tooMany)
  }

  @Test("A flood of addresses uses no more memory than 1,024 addresses")
  func addresses() {
    var links = ConnectionLimit<Int>.rfcommLinks
    for address in 0..<20_000 {
      if opens(&links, address, Double(address) / 1000) == nil, address >= 10 { links.close(address) }
      #expect(links.addresses <= 1024)
    }
    #expect(links.count == 10)
  }

  private func opens(
    _ limit: inout ConnectionLimit<Int>, _ address: Int, _ seconds: Double
  ) -> ConnectionRefusal? {
    do throws(ConnectionRefusal) {
      try limit.open(address, at: at(seconds))
      return nil
    } catch {
      return error
    }
  }
}
