import Air
import Bytes
import Common
import Glibc
import Loop
import Network
import TestSupport
import Testing
import Thali

@testable import Presence

/// Everything that a stranger can record of two announcements to the same peers has no eight octets in common but
/// those that unrelated peers send, too.
@Suite("Recorded bytes do not link two announcements of one machine", .serialized)
struct UnlinkabilityTests {
  init() { EventLoop.shared.runInBackground() }

  /// All subsequences of `size` consecutive bytes in the records.
  private static func windows(_ records: [[UInt8]], of size: Int = 8) -> Set<[UInt8]> {
    var found: Set<[UInt8]> = []
    for record in records where record.count >= size {
      for index in 0...record.count - size { found.insert(Array(record[index..<index + size])) }
    }
    return found
  }

  /// Runs of eight octets that two records have in common, and the record of other peers has not. A run with seven
  /// octets of a constant does not count: one random octet is the same in two records once in 256 times.
  private static func marks(_ first: [[UInt8]], _ second: [[UInt8]], other: [[UInt8]]) -> [String] {
    let common = windows(first).intersection(windows(second))
    let constants = windows(other, of: 7)
    return common.filter { !constants.contains(Array($0.dropLast())) && !constants.contains(Array($0.dropFirst())) }
      .map { Hex.encode($0) }.sorted()
  }

  @Test("Datagrams and beacons of two announcements share only constants and the sender's network address")
  @LoopActor
  func network() throws {
    let network = VirtualNetwork()
    let names = ["anna", "ben", "carl", "dora"]
    let services = names.map { _ in network.host() }
    _ = try services[0].know("ben", services[1].keyText, in: network)
    _ = try services[1].know("anna", services[0].keyText, in: network)
    _ = try services[2].know("dora", services[3].keyText, in: network)
    // The network address is part of every packet, so it is left out of the comparison.
    func record(_ host: Int, _ peer: String) throws -> [[UInt8]] {
      let before = network.hosts[host].recorded.count
      try services[host].announce(to: [peer], seconds: 600)
      network.time.advance(by: .seconds(2))
      services[host].silence()
      network.time.advance(by: .seconds(2))
      let own = network.hosts[host].address
      return network.hosts[host].recorded.dropFirst(before).map { Self.replacing(own, in: $0) }
    }
    let records = [try record(0, "ben"), try record(0, "ben"), try record(2, "dora")]
    for record in records {
      #expect(record.contains { $0.first == 0x30 } && record.contains { $0.starts(with: Array("NOTIFY".utf8)) })
    }
    #expect(Self.marks(records[0], records[1], other: records[2]) == [])
    #expect(!Self.windows(records[0]).isDisjoint(with: Self.windows(records[1])), "constants are found")
  }

  private static func replacing(_ address: NetworkAddress, in bytes: [UInt8]) -> [UInt8] {
    let text = Array(Location(address: address, port: 5000).url.utf8)
    guard bytes.count > text.count,
      let start = (0...bytes.count - text.count).first(where: { bytes[$0...].starts(with: text) })
    else { return bytes }
    return Array(bytes[..<start]) + Array(bytes[(start + text.count)...])
  }

  @Test("RFCOMM, HTTP and TLS bytes of two announcements share only bytes that other peers send, too")
  @LoopActor
  func links() async throws {
    let recorder = LinkRecorder()
    let pair = try await BluetoothPair(recorder: recorder)
    defer { pair.close() }
    let first = try await record(pair, recorder)
    pair.anna.silence()
    let moves = Mailbox<Int>()
    let ben = pair.ben
    func check() {
      let count = ben.tallies.first { $0.name == "Recognized" }?.count ?? 0
      moves.put(Int(count))
      if count < 2 { EventLoop.shared.soon { check() } }
    }
    try pair.anna.announce(to: ["ben"], seconds: 0)
    check()
    _ = try await moves.first { $0 == 2 }
    let second = try await record(pair, recorder)
    let strangers = LinkRecorder()
    let other = try await BluetoothPair(recorder: strangers)
    defer { other.close() }
    let third = try await record(other, strangers)
    #expect(Self.marks([first], [second], other: [third]) == [])
    // A TLS handshake of 1.2, and the request for beacons.
    for record in [first, second, third] {
      let windows = Self.windows([record])
      #expect(windows.contains(Array("GET /Not".utf8)) && record.count > 4096)
    }
    #expect(!Self.windows([first]).isDisjoint(with: Self.windows([second])), "constants are found")
  }

  /// What a stranger records while beacons are fetched and the same 2,048 bytes go to a program and come back.
  @LoopActor
  private func record(_ pair: BluetoothPair, _ recorder: LinkRecorder) async throws -> [UInt8] {
    let program = try EchoProgram()
    let label = try #require(ServiceLabel("echo"))
    pair.anna.streams.unregister(all: ":1.1")
    try pair.anna.streams.register(label, at: program.address, by: ":1.1", user: getuid())
    let end = ProgramEnd(try await pair.connect(label).get())
    let bytes = (0..<2048).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 13) }
    end.send(bytes)
    _ = try await end.ends.next()
    #expect(end.received == bytes)
    let recorded = recorder.take()
    #expect(Self.windows([recorded]).isDisjoint(with: Self.windows([bytes])))
    return recorded
  }
}
