import Bytes
import Common
import Testing

@testable import PBLEC

@Suite("PBLEC vectors")
struct VectorTests {
  let vectors = Vectors.shared

  @Test("The tests cover every section of the PBLEC vector file")
  func sections() throws {
    let names = try Vectors.sectionNames()
    #expect(names == Set(Vectors.CodingKeys.allCases.map(\.rawValue)))
  }

  @Test("The limits of the broadcast engine equal those of the vector file")
  func constants() {
    let constants = vectors.constants
    #expect(Array(constants.prefix.utf8) == [MessagePacket.mark])
    #expect(constants.maxText == Limits.textBytes && constants.maxName == Limits.textBytes + 2)
    #expect(.seconds(constants.broadcastS) == Limits.airTime)
    #expect(.seconds(constants.broadcastS + constants.cooldownS) == Limits.messagePeriod)
    #expect(.seconds(constants.pruneS) == Limits.peerLife)
    #expect(constants.notifyTxPerDay == 1)
    #expect(constants.notifyRxPerDayDefault == Limits.notifications)
    #expect(.seconds(constants.notifyBroadcastS) == Limits.beaconTime)
    let uuid = constants.notifyUuid.filter { $0 != "-" }
    #expect(Hex.encode(NotifyBeacon.prefix.suffix(16)) == uuid)
  }

  @Test("Recorded broadcast packets are encoded and decoded", arguments: Vectors.shared.packets)
  func packet(row: Vectors.PacketRow) throws {
    let packet = MessagePacket(digit: row.digit, text: try MessageText(row.text))
    #expect(packet.bytes == row.adv.bytes)
    #expect(packet.bytes.count == row.len && packet.text.count == row.utf8Len)
    #expect(Report(reading: row.adv.bytes) == .message(packet))
    #expect(packet.text.string == row.text)
    #expect(row.parsed.kind == "text" && row.parsed.digit == row.digit && row.parsed.text == row.text)
  }

  @Test("A broadcast text is cut between two code points, not within one", arguments: Vectors.shared.clip)
  func clip(row: Vectors.ClipRow) {
    let clipped = MessageText.clipped(row.input)
    #expect(Array(clipped.utf8) == Array(row.clipped.utf8))
    #expect(clipped.utf8.count == row.octets)
    // A text that is too long is refused, unless it is cut before.
    #expect(throws: BroadcastError.tooLong(bytes: row.input.utf8.count)) { try MessageText(row.input) }
  }

  @Test(
    "Recorded malformed broadcast packets are read or refused as the vectors state",
    arguments: Vectors.shared.malformed.keys.sorted())
  func malformed(name: String) throws {
    let row = try #require(vectors.malformed[name])
    switch Report(reading: row.adv.bytes) {
    case .message(let packet):
      #expect(row.parsed?.kind == "text" && row.parsed?.digit == packet.digit && row.parsed?.text == packet.text.string)
    case .stop(let digit?): #expect(row.parsed?.kind == "stop" && row.parsed?.digit == digit)
    case .stop(nil), .nothing, .refused: #expect(row.parsed == nil)
    case .beacon: Issue.record("a beacon")
    }
  }

  @Test("The receiver classifies the recorded sequence of messages as the vectors state")
  func sequence() throws {
    #expect(vectors.receiverSequence.columns == ["t", "address", "digit", "text", "verdict"])
    var stand = FeedStand()
    for row in vectors.receiverSequence.rows {
      stand.now = .zero.advanced(by: .milliseconds(Int64(row.seconds * 1000)))
      let address = UInt64(row.address.utf8.first ?? 0)
      let data: [UInt8] = [2, 1, 6] + FeedStand.name("~\(row.digit)\(row.text)")
      let before = stand.engine.counters
      let heard = stand.hear(data, from: address)
      let verdict = Self.verdict(heard, from: before, to: stand.engine.counters)
      #expect(verdict == row.verdict, "at \(row.seconds)")
    }
  }

  private static func verdict(
    _ heard: [String], from before: BroadcastEngine.Counters, to after: BroadcastEngine.Counters
  ) -> String {
    if !heard.isEmpty { return "new" }
    if after.stops > before.stops { return "stop" }
    let names: [Drop: String] = [.duplicate: "duplicate", .late: "late", .tooFast: "too-fast"]
    return names.first { after[$0.key] > before[$0.key] }?.value ?? "nothing"
  }

  @Test("Recorded beacons are encoded and decoded", arguments: Vectors.shared.ibeacon.keys.sorted())
  func beacon(name: String) throws {
    let row = try #require(vectors.ibeacon[name])
    let beacon = NotifyBeacon(major: row.major, minor: row.minor, power: row.power)
    #expect(beacon.bytes == row.adv.bytes && beacon.bytes.count == row.len)
    #expect(Array(beacon.data.dropFirst(2)) == row.bluezManufacturer.bytes)
    #expect(Report(reading: row.adv.bytes) == .beacon(beacon))
  }

  @Test("The kernel's advertising command contains the broadcast packet unchanged")
  func management() {
    // Instance, flags, duration, timeout and the two lengths are 11 bytes.
    let params = vectors.mgmtAddAdvertising.params.bytes
    let packet = vectors.packets[0]
    #expect(Array(params.dropFirst(11)) == packet.adv.bytes)
    #expect(params[9] == UInt8(packet.len) && params[10] == 0)
  }
}
