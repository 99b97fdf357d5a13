import Bytes
import Common
import Testing

@testable import Thali

@Suite("Presence advertisements and the RFCOMM handshake")
struct AdvertisementTests {
  static let payloads = Vectors.shared.advdata.payloads
  static let address = DeviceAddress(0x001A_7DDA_7113)

  private func payload(_ name: String) throws -> [UInt8] { try #require(Self.payloads[name]).hex.bytes }

  @Test(
    "Every recorded form of presence advertisement is read, including those too long for one packet",
    arguments: payloads.keys.sorted())
  func read(name: String) throws {
    let row = try #require(Self.payloads[name])
    #expect(row.hex.bytes.count == row.len && (row.len <= 31) == row.fits31)
    let expected: Advertisement =
      name == "seed_ios_flag"
      ? .iOSDevice : .beacons(generation: name.hasPrefix("seed_literal") ? nil : 0, Self.address)
    #expect(Advertisement(reading: row.hex.bytes) == expected)
    #expect(Vectors.shared.advdata.mac == "00:1A:7D:DA:71:13")
  }

  @Test("The advertisement form in use, and the literal form of the document, are written as recorded")
  func written() throws {
    let recommended = try payload("recommended_linux")
    #expect(Advertisement.bytes(generation: 0, address: Self.address) == recommended)
    let literal = try payload("seed_literal_abnf_LE_uuid")
    #expect(Advertisement.bytes(generation: 0, address: Self.address, form: .literal) == literal)
    for generation: UInt8 in [0, 1, 116, 255] {
      for form in [Advertisement.Form.recommended, .literal] {
        let bytes = Advertisement.bytes(generation: generation, address: Self.address, form: form)
        #expect(bytes.count <= 31)
        let read = form == .literal ? nil : generation
        #expect(Advertisement(reading: bytes) == .beacons(generation: read, Self.address))
      }
    }
  }

  @Test("A generation in the literal form, as old phones may send it, is read")
  func literalGeneration() throws {
    var bytes = try payload("seed_literal_abnf_LE_uuid")
    bytes[23] = 5
    #expect(Advertisement(reading: bytes) == .beacons(generation: 5, Self.address))
  }

  @Test("A presence advertisement with a request number in its UUID and no address is an address request")
  func addressRequest() throws {
    var bytes = try payload("recommended_linux")
    for index in 2..<8 { bytes[index] = UInt8(index) }
    for index in 23..<29 { bytes[index] = 0 }
    #expect(Advertisement(reading: bytes) == .addressRequest)
  }

  @Test("A presence advertisement of another service, or without the service's UUID, is not read")
  func foreign() throws {
    let good = try payload("recommended_linux")
    var other = good
    other[17] ^= 1
    #expect(Advertisement(reading: other) == nil)
    #expect(Advertisement(reading: Array(good.dropFirst(18))) == nil)
    #expect(Advertisement(reading: Array(good.prefix(18))) == nil)
    var company = try payload("manufacturer_7413")
    company[2] ^= 1
    #expect(Advertisement(reading: company) == nil)
    #expect(Advertisement(reading: []) == nil)
    #expect(Advertisement(reading: [UInt8](repeating: 0, count: 256)) == nil)
  }

  @Test("An advertisement truncated at any byte is not read, and causes no crash")
  func cut() {
    for row in Self.payloads.values {
      for count in 0..<row.len where row.hex.bytes.count > count {
        let cut = Array(row.hex.bytes.prefix(count))
        if let read = Advertisement(reading: cut) { #expect(read == .iOSDevice || cut.count > 20) }
      }
    }
  }

  @Test("The link handshake has the recorded bytes, in both roles and with both meanings", arguments: [true, false])
  func handshake(hasBeacons: Bool) {
    let vectors = Vectors.shared.rfcomm
    var client = RFCOMMHandshake(role: .client(hasBeacons: hasBeacons))
    var server = RFCOMMHandshake(role: .server)
    let octet = (hasBeacons ? vectors.hasNotification : vectors.noNotification).bytes
    #expect(client.handle(.opened, at: .zero) == [.send(octet)])
    #expect(server.handle(.opened, at: .zero) == [])
    #expect(
      server.handle(.received(octet + [9, 8]), at: .zero) == [
        .send(vectors.serverReply.bytes), .established(peerHasBeacons: hasBeacons, rest: [9, 8]),
      ])
    #expect(
      client.handle(.received(vectors.serverReply.bytes + [7]), at: .zero) == [
        .established(peerHasBeacons: nil, rest: [7])
      ])
    for side in [client, server] { #expect(side.deadline == nil) }
    // Later bytes belong to the stream, so the handshake ignores them.
    #expect(server.handle(.received([1]), at: .zero) == [] && client.handle(.timer, at: .zero) == [])
  }

  @Test("The RFCOMM service record has the recorded name and UUIDs")
  func record() {
    let vectors = Vectors.shared.rfcomm
    #expect(vectors.recordName == RFCOMMRecord.name)
    #expect(vectors.uuidSpec == "\(RFCOMMRecord.service)" && vectors.uuidApp == "\(RFCOMMRecord.phone)")
  }

  @Test(
    "An old phone is recognised by the first byte it sends, and any other wrong byte closes the link",
    arguments: UInt8.min...UInt8.max)
  func refusals(octet: UInt8) {
    for role in [RFCOMMHandshake.Role.server, .client(hasBeacons: true)] {
      var side = RFCOMMHandshake(role: role)
      _ = side.handle(.opened, at: .zero)
      let intents = side.handle(.received([octet]), at: .zero)
      let isAnswer = octet == 0 || octet == 1 && role == .server
      let refusal = RFCOMMHandshake.Refusal.self
      if isAnswer {
        #expect(intents != [.close(refusal.badOctet)] && !intents.isEmpty)
      } else {
        #expect(intents == [.close(octet == 0x74 || octet == 0x7B ? refusal.oldPhone : refusal.badOctet)])
        #expect(side.handle(.received([0]), at: .zero) == [])
      }
    }
    #expect(Vectors.shared.rfcomm.oldPhone.bytes.first == UInt8(ascii: "t"))
  }

  @Test("A link on which nothing arrives is closed after exactly 10 s")
  func timeout() {
    var side = RFCOMMHandshake(role: .server)
    #expect(side.deadline == nil)
    _ = side.handle(.opened, at: .zero)
    let deadline = Instant.zero.advanced(by: .seconds(10))
    #expect(side.deadline == deadline)
    #expect(side.handle(.received([]), at: .zero) == [])
    #expect(side.handle(.timer, at: .zero.advanced(by: .milliseconds(9999))) == [])
    #expect(side.handle(.timer, at: deadline) == [.close(.timeout)])
  }
}
