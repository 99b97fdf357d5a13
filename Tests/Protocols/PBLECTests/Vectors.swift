import Bytes
import Foundation
import VectorSupport

/// The file of vectors, one property for each section.
struct Vectors: Decodable {
  let constants: Constants
  let packets: [PacketRow]
  let clip: [ClipRow]
  let malformed: [String: MalformedRow]
  let receiverSequence: Sequence
  let ibeacon: [String: BeaconRow]
  let mgmtAddAdvertising: Management

  enum CodingKeys: String, CodingKey, CaseIterable {
    case constants, packets, clip, malformed, receiverSequence, ibeacon, mgmtAddAdvertising
  }

  static let shared: Vectors = file.read()

  /// The names of all sections of the file, in camel case.
  static func sectionNames() throws -> Set<String> { try file.sectionNames() }

  private static var file: VectorFile { VectorFile("pblec", in: .module) }
}

extension Vectors {
  struct Constants: Decodable {
    let prefix: String
    let maxName: Int
    let maxText: Int
    let broadcastS: Int64
    let cooldownS: Int64
    let pruneS: Int64
    let notifyUuid: String
    let notifyBroadcastS: Int64
    let notifyTxPerDay: Int
    let notifyRxPerDayDefault: Int
  }

  struct PacketRow: Decodable, Sendable {
    let name: String
    let digit: UInt8
    let text: String
    let utf8Len: Int
    let adv: HexBytes
    let len: Int
    let parsed: Parsed
  }

  /// `["text", 0, "hello"]`, or `["stop", 7]`.
  struct Parsed: Decodable, Sendable, Equatable {
    let kind: String
    let digit: UInt8
    let text: String?

    init(from decoder: any Decoder) throws {
      var values = try decoder.unkeyedContainer()
      kind = try values.decode(String.self)
      digit = try values.decode(UInt8.self)
      text = values.isAtEnd ? nil : try values.decode(String.self)
    }
  }

  struct ClipRow: Decodable, Sendable {
    let input: String
    let clipped: String
    let octets: Int
  }

  struct MalformedRow: Decodable, Sendable {
    let adv: HexBytes
    let parsed: Parsed?
  }

  struct Sequence: Decodable {
    struct Row: Decodable, Sendable {
      let seconds: Double
      let address: String
      let digit: UInt8
      let text: String
      let verdict: String

      init(from decoder: any Decoder) throws {
        var values = try decoder.unkeyedContainer()
        seconds = try values.decode(Double.self)
        address = try values.decode(String.self)
        digit = try values.decode(UInt8.self)
        text = try values.decode(String.self)
        verdict = try values.decode(String.self)
      }
    }
    let columns: [String]
    let rows: [Row]
  }

  struct BeaconRow: Decodable, Sendable {
    let major: UInt16
    let minor: UInt16
    let power: Int8
    let bluezManufacturer: HexBytes
    let adv: HexBytes
    let len: Int

    enum CodingKeys: String, CodingKey {
      case major, minor, power, adv, len
      case bluezManufacturer = "bluezManufacturer0X004C"
    }
  }

  struct Management: Decodable {
    let note: String
    let params: HexBytes
  }
}
