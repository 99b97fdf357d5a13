import Common
import Crypto
import Testing

@testable import Bitchat
@testable import BitchatWire

/// First messages of handshakes are not authenticated: an attacker sends many, in a victim's name or under random
/// names.
@Suite("Attack: forged first handshake messages keep two peers from a session")
struct HandshakeBlockingTests {
  /// How the attacker sends.
  struct Attack: CustomStringConvertible, Sendable {
    var description: String
    /// First messages a minute, beginning before the victims' own.
    var perMinute = 0
    /// First messages that the attacker sends at once for each message of a handshake that it receives.
    var reaction = 0
    /// Whether the forged messages carry the victims' IDs instead of random IDs.
    var isInName = true
    var timeToLive: UInt8 = 7
    /// Whether the attacker also repeats the victim's announces on its link.
    var repeatsAnnounces = false
  }

  static let attacks = [
    Attack(description: "12 a minute in the victims' names", perMinute: 12),
    Attack(description: "the same over a link that repeats announces", perMinute: 12, repeatsAnnounces: true),
    Attack(description: "30 a minute under any names", perMinute: 30, isInName: false),
    Attack(description: "600 a minute in the victims' names", perMinute: 600),
    Attack(description: "600 a minute under any names", perMinute: 600, isInName: false),
    Attack(description: "20 for each message of a handshake", reaction: 20),
  ]

  /// The delay of a private message. With one hop Eve has a link with each victim, with two hops a link with the relay
  /// alone.
  ///
  /// - Parameter start: seconds of the attack before the message.
  private func delay(
    _ attack: Attack?, hops: Int, from sender: Int, after start: Int = 60
  ) throws -> Duration? {
    var hall = MeshHall()
    hall.add(["ann", "bob", "cem"])
    hall.connect(0, 1)
    if hops == 2 { hall.connect(1, 2) }
    let pair = [0, hops]
    let receiver = pair[1 - sender]
    let eve = Stranger(1)
    // Eve's link to each victim, or to the relay.
    let doors: [(node: Int, link: LinkID)] = (hops == 1 ? pair : [1]).map { ($0, hall.connect(stranger: eve, to: $0)) }
    let ids = pair.map { hall.nodes[$0].id }
    var number: UInt64 = 0
    var caught: [PeerID: [UInt8]] = [:]
    func forged(for place: Int, at time: UInt64, _ attack: Attack) -> [UInt8] {
      number += 1
      var random = SeededRandom(seed: 0xE0E_0000 + number)
      let sender = attack.isInName ? ids[1 - place] : PeerID(rawValue: 0xE0E_0000_0000 + number)
      let packet = Packet(
        type: .noiseHandshake, timeToLive: attack.timeToLive, timestamp: time + number, sender: sender,
        recipient: ids[place], payload: X25519.PrivateKey(randomFrom: &random).publicKey.bytes)
      return (try? packet.encoded(padded: true)) ?? []
    }
    func door(to place: Int) -> (node: Int, link: LinkID) { doors.count == 2 ? doors[place] : doors[0] }
    hall.pass(.seconds(60))
    hall.attacker = { [epoch = hall.time, begin = hall.now] frame in
      guard let attack, let sender = frame.sender, let place = ids.firstIndex(of: sender) else { return [] }
      if frame.type == .announce { caught[sender] = frame.bytes }
      guard frame.type == .noiseHandshake, attack.reaction > 0 else { return [] }
      _ = begin
      return (0..<attack.reaction).flatMap { _ in
        [place, 1 - place].map { place in
          let door = door(to: place)
          return MeshHall.Injection(
            bytes: forged(for: place, at: epoch + 60_000, attack), link: door.link, node: door.node)
        }
      }
    }
    func tick(_ milliseconds: Int) {
      guard let attack else { return hall.pass(.milliseconds(milliseconds)) }
      hall.pass(.milliseconds(milliseconds))
      for place in 0...1 {
        let door = door(to: place)
        if attack.repeatsAnnounces, let announce = caught[ids[1 - place]] {
          hall.inject(announce.with(7, at: 2), on: door.link, to: door.node)
        }
        if attack.perMinute > 0 { hall.inject(forged(for: place, at: hall.time, attack), on: door.link, to: door.node) }
      }
    }
    let pause = attack.map { $0.perMinute > 0 ? 60_000 / $0.perMinute : 100 } ?? 100
    for _ in 0..<(start * 1000 / pause) { tick(pause) }
    let begin = hall.now
    try hall.tell("hello", to: pair[1 - sender], at: pair[sender])
    // The attack continues while the message is under way.
    var next = begin
    while hall.nodes[receiver].told.isEmpty, begin.duration(to: hall.now) < .seconds(120) {
      hall.pass(.milliseconds(10))
      if next <= hall.now {
        tick(0)
        next = hall.now.advanced(by: .milliseconds(pause))
      }
    }
    return hall.nodes[receiver].told.isEmpty ? nil : begin.duration(to: hall.now)
  }

  @Test("Forged first handshake messages delay a session between neighbours by less than 0.5 s", arguments: attacks)
  func neighbours(attack: Attack) throws {
    for sender in 0...1 {
      let calm = try #require(try delay(nil, hops: 1, from: sender))
      let attacked = try delay(attack, hops: 1, from: sender)
      print("neighbours, \(attack): \(calm) \(String(describing: attacked))")
      #expect(calm < .milliseconds(200))
      #expect(attacked.map { $0 < calm + .milliseconds(500) } ?? false, "\(attack): \(String(describing: attacked))")
    }
  }

  @Test(
    "Forged first handshake messages over the relay of two peers delay their session by less than 1 s",
    arguments: attacks)
  func overOneRelay(attack: Attack) throws {
    for sender in 0...1 {
      let calm = try #require(try delay(nil, hops: 2, from: sender))
      let attacked = try delay(attack, hops: 2, from: sender)
      print("one relay, \(attack): \(calm) \(String(describing: attacked))")
      #expect(calm < .milliseconds(800))
      #expect(attacked.map { $0 < calm + .seconds(1) } ?? false, "\(attack): \(String(describing: attacked))")
    }
  }

  @Test(
    "Forged first handshake messages delay a session by less than 1.5 s, whenever the attack begins",
    arguments: attacks.prefix(5), 1...2)
  func starts(attack: Attack, hops: Int) throws {
    for sender in 0...1 {
      let calm = try #require(try delay(nil, hops: hops, from: sender))
      for start in [1, 3, 6, 11, 21, 41, 64, 71] {
        let attacked = try delay(attack, hops: hops, from: sender, after: start)
        #expect(
          attacked.map { $0 < calm + .milliseconds(1500) } ?? false,
          "\(attack), \(hops) hops, after \(start) s: \(String(describing: attacked)) beside \(calm)")
      }
    }
  }

  @Test("Forged first handshake messages with a lower TTL over the same relay delay a session by less than 1 min")
  func shortLived() throws {
    for timeToLive in 2...6 as ClosedRange<UInt8> {
      for (perMinute, reaction) in [(600, 0), (0, 40)] {
        var attack = Attack(description: "time to live \(timeToLive)", perMinute: perMinute, reaction: reaction)
        for isInName in [true, false] {
          (attack.timeToLive, attack.isInName) = (timeToLive, isInName)
          let attacked = try delay(attack, hops: 2, from: 0)
          print("low, \(attack) \(perMinute) \(reaction) \(isInName): \(String(describing: attacked))")
          #expect(attacked.map { $0 < .seconds(60) } ?? false, "\(attack): \(String(describing: attacked))")
        }
      }
    }
  }
}
