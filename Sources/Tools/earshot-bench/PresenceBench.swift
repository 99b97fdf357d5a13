import Bytes
import Common
import Crypto
import DBus
import Glibc
import Loop
import TLS
import Thali

/// The cost of announcements, handshakes and streams of private presence, beside libsecp256k1 and libssl in C without
/// any of our code: `scripts/bench/presence.c`, a program beside this one. The best of several rounds counts.
@LoopActor
enum PresenceBench {
  /// Divisor of all amounts: with `QUICK=1` a tenth of everything is measured, to try the measurement.
  private static let part = getenv("QUICK") == nil ? 1 : 10
  private static let turns = 3
  private static let peers = 50
  private static let identity = String(repeating: "aB3+/x9=", count: 24)
  private static let now = WallTime(milliseconds: 1_780_000_000_000)

  struct NotRun: Error {
    let reason: String
  }

  static func run() async throws -> [Figure] {
    var (announce, judge) = (Double.infinity, Double.infinity)
    var (handshakes, stream, multiplexed) = (0.0, 0.0, 0.0)
    var bare = [Double.infinity, .infinity, 0, 0]
    for _ in 0..<turns {
      let costs = try announcements()
      (announce, judge) = (min(announce, costs.announce), min(judge, costs.judge))
      handshakes = max(handshakes, try self.handshakes())
      stream = max(stream, try overTLS())
      multiplexed = max(multiplexed, try overMultiplexer())
      let other = try measureBare()
      bare = [min(bare[0], other[0]), min(bare[1], other[1]), max(bare[2], other[2]), max(bare[3], other[3])]
    }
    let figures: [Figure] = [
      .less("presence: announcement of 15 beacons made", announce, "us"),
      .less("15 ECDH and a key pair, libsecp256k1 alone", 15 * bare[0] + bare[1], "us"),
      .less("presence: announcement for others judged", judge, "us"),
      .less("one ECDH, libsecp256k1 alone", bare[0], "us"),
      .more("presence: TLS handshakes, both sides, 3072 bits", handshakes, "1/s"),
      .more("TLS handshakes, both sides, libssl alone", bare[2], "1/s"),
      .more("presence: bytes through TLS, both sides", stream, "MB/s"),
      .more("bytes through TLS, both sides, libssl alone", bare[3], "MB/s"),
      .more("presence: bytes through TLS and the multiplexer", multiplexed, "MB/s"),
    ]
    return figures + (try await idle())
  }

  // MARK: Announcements

  /// Microseconds to make an announcement of 15 beacons, and to judge one that has no beacon for its receiver.
  private static func announcements() throws -> (announce: Double, judge: Double) {
    var random = SystemRandom()
    var known = KnownPeers(own: try Secp256k1.PrivateKey(randomFrom: &random))
    var recipients: [PeerID] = []
    for _ in 0..<Limits.beacons {
      recipients.append(try known.add(try Secp256k1.PrivateKey(randomFrom: &random).publicKey))
    }
    var announcer = Announcer()
    let rounds = 300 / part
    var made: [[UInt8]] = []
    let start = processorTime()
    for _ in 0..<rounds {
      let announcement = try announcer.announce(
        to: recipients, life: Limits.announcementLife, dialect: .spec, known: known, at: now, randomFrom: &random)
      made.append(announcement.bytes)
    }
    let announce = (processorTime() - start) / Double(rounds) * 1e6
    let stranger = KnownPeers(own: try Secp256k1.PrivateKey(randomFrom: &random))
    var recognizer = Recognizer()
    let begin = processorTime()
    for bytes in made where recognizer.judge(bytes, known: stranger, at: now) != .dropped(.notForUs) {
      throw NotRun(reason: "An announcement was not judged as one for others.")
    }
    return (announce, (processorTime() - begin) / Double(rounds) * 1e6)
  }

  // MARK: TLS and the multiplexer

  /// Returns a client and a server in memory, after their handshake.
  private static func pair(
    _ clients: TLSContext, _ servers: TLSContext
  ) throws -> (client: TLSSession, server: TLSSession) {
    let key = SecretBytes(copying: [UInt8](1...16))
    let client = try TLSSession(clients, .client(identity: identity, key: key), at: .zero)
    let server = try TLSSession(servers, .server(key: { _, _ in key }), at: .zero)
    while !client.isEstablished || !server.isEstablished {
      let (there, back) = (client.takeOutgoing(), server.takeOutgoing())
      guard !there.isEmpty || !back.isEmpty else { throw NotRun(reason: "The handshake fails.") }
      _ = server.receive(there[...])
      _ = client.receive(back[...])
    }
    return (client, server)
  }

  private static func contexts() throws -> (clients: TLSContext, servers: TLSContext) {
    guard let clients = TLSContext(isServer: false), let servers = TLSContext(isServer: true) else {
      throw NotRun(reason: "libssl does not have the suite.")
    }
    return (clients, servers)
  }

  private static func handshakes() throws -> Double {
    let (clients, servers) = try contexts()
    let rounds = 50 / part
    let start = processorTime()
    for _ in 0..<rounds { _ = try pair(clients, servers) }
    return Double(rounds) / (processorTime() - start)
  }

  /// Megabytes per second that the client encrypts and the server decrypts.
  private static func overTLS() throws -> Double {
    let (clients, servers) = try contexts()
    let (client, server) = try pair(clients, servers)
    let text = [UInt8](repeating: 7, count: 64 << 10)
    let rounds = 1000 / part
    var received = 0
    let start = processorTime()
    for _ in 0..<rounds {
      client.send(text[...])
      for case .received(let bytes) in server.receive(client.takeOutgoing()[...]) { received += bytes.count }
    }
    guard received == rounds * text.count else { throw NotRun(reason: "Bytes are missing behind TLS.") }
    return Double(received) / 1e6 / (processorTime() - start)
  }

  /// Megabytes per second as in `overTLS`, with the ciphertext in a stream of a multiplexed link.
  private static func overMultiplexer() throws -> Double {
    let (clients, servers) = try contexts()
    let (client, server) = try pair(clients, servers)
    var (here, there) = (Multiplexer(role: .client), Multiplexer(role: .server))
    guard let id = here.open() else { throw NotRun(reason: "The multiplexer opens no stream.") }
    let text = [UInt8](repeating: 7, count: 64 << 10)
    let rounds = 1000 / part
    var received = 0
    let start = processorTime()
    for _ in 0..<rounds {
      client.send(text[...])
      let records = client.takeOutgoing()
      guard here.write(records[...], to: id) == records.count else {
        throw NotRun(reason: "The multiplexer does not take the bytes.")
      }
      while here.hasOutput {
        for case .deliver(let stream, let bytes) in there.receive(here.output(limit: 16 << 10).bytes[...]) {
          there.consumed(bytes.count, of: stream)
          for case .received(let plain) in server.receive(bytes) { received += plain.count }
        }
      }
    }
    guard received == rounds * text.count else { throw NotRun(reason: "Bytes are missing behind the multiplexer.") }
    return Double(received) / 1e6 / (processorTime() - start)
  }

  // MARK: libsecp256k1 and libssl alone

  private static var programs: String {
    let own = Swift.CommandLine.arguments.first ?? ""
    return own.lastIndex(of: "/").map { String(own[..<$0]) } ?? "."
  }

  /// Microseconds of an ECDH and of a key generation, handshakes per second, and megabytes per second, without our
  /// code.
  private static func measureBare() throws -> [Double] {
    let output = "/tmp/earshot-bench.\(getpid()).presence"
    defer { unlink(output) }
    let process = try Process("\(programs)/presence", ["\(part)"], output: output)
    process.wait()
    guard let file = fopen(output, "r") else { throw NotRun(reason: "\(programs)/presence writes nothing.") }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 128)
    guard fgets(&line, 128, file) != nil else { throw NotRun(reason: "\(programs)/presence writes nothing.") }
    let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let numbers = text.split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
    guard numbers.count == 4 else { throw NotRun(reason: "\(programs)/presence does not write four numbers.") }
    return numbers
  }

  // MARK: The service with known peers

  /// Memory and wake-ups of a service that announces nothing and receives nothing.
  private static func idle() async throws -> [Figure] {
    let bench = ServiceBench()
    defer { bench.cleanUp() }
    let (bus, address) = try await bench.startBus()
    guard case .address(let text) = address else { throw NotRun(reason: "The bus has no address.") }
    let folder = "/tmp/earshot-bench.\(getpid()).peers"
    mkdir(folder, 0o700)
    defer { if let removal = try? Process("rm", ["-rf", folder]) { removal.wait() } }
    guard let file = fopen("\(folder)/conf", "w") else { throw NotRun(reason: "\(folder)/conf cannot be written.") }
    fputs("[Presence]\nInterfaces=lo\nBluetooth=no\n[Store]\nDirectory=\(folder)/state\n", file)
    fclose(file)
    let service = try Process("\(programs)/earshot-presenced", ["--bus", text, "--config", "\(folder)/conf"])
    try await bench.awaitName("org.earshot.Presence", on: bus)
    var random = SystemRandom()
    for number in 1...peers {
      let key = Base64URL.encode(try Secp256k1.PrivateKey(randomFrom: &random).publicKey.info)
      _ = try await bus.call(
        "org.earshot.Presence", "/org/earshot/presence", "org.earshot.Presence1", "AddPeer",
        [.string("peer\(number)"), .string(key)])
    }
    try await bench.pause(.seconds(2))
    let before = service.status("voluntary_ctxt_switches")
    try await bench.pause(.seconds(10))
    let wakeups = service.status("voluntary_ctxt_switches") - before
    return [
      .less("presence: idle RSS, \(peers) known peers", Double(service.status("VmRSS")) / 1024, "MiB"),
      .less("presence: idle, anonymous memory", Double(service.status("RssAnon")) / 1024, "MiB"),
      .less("presence: wake-ups while idle", Double(wakeups) / 10, "1/s"),
    ]
  }
}
