import Bytes
import Crypto
import Foundation
import VectorSupport

@testable import Thali

/// The file of vectors, one property for each section.
struct Vectors: Decodable {
  let note: String
  let constants: Constants
  let beacons: [String: Beacons]
  let multiplex: Multiplex
  let advdata: Advdata
  let rfcomm: RFCOMM
  let ssdp: SSDP
  let http: HTTP

  enum CodingKeys: String, CodingKey, CaseIterable {
    case note, constants, beacons, multiplex, advdata, rfcomm, ssdp, http
  }

  static let shared: Vectors = file.read()

  /// The names of all sections of the file.
  static func sectionNames() throws -> Set<String> { try file.sectionNames() }

  private static var file: VectorFile { VectorFile("thali", in: .module, convertsNames: false) }

  struct Constants: Decodable {
    let curve: String
    let spkiPrefix: HexBytes
    let bleUUID: String

    enum CodingKeys: String, CodingKey {
      case curve
      case spkiPrefix = "spki_prefix"
      case bleUUID = "ble_uuid"
    }
  }

  struct Receiver: Decodable, Sendable {
    let name: String
    let `private`: HexBytes
    let `public`: HexBytes
    let sey: HexBytes
    let sxy: HexBytes
    let flagKeyMaterial: HexBytes
    let hkxy: HexBytes
    let beacon: HexBytes
    let pskIdentity: String
    let psk: HexBytes

    enum CodingKeys: String, CodingKey {
      case name, `private`, `public`, sey, sxy, hkxy, beacon, psk
      case flagKeyMaterial = "flag_key_material"
      case pskIdentity = "psk_identity"
    }
  }

  struct Beacons: Decodable, Sendable {
    let expirationMs: UInt64
    let expiration: HexBytes
    let senderPrivate: HexBytes
    let senderPublic: HexBytes
    let senderKeyid: HexBytes
    let ephemeralPrivate: HexBytes
    let ephemeralPublic: HexBytes
    let strangerPrivate: HexBytes
    let stream: HexBytes
    let streamLen: Int
    let receivers: [Receiver]
    /// Name and verdict.
    let negative: [[String]]

    enum CodingKeys: String, CodingKey {
      case expiration, stream, receivers, negative
      case expirationMs = "expiration_ms"
      case senderPrivate = "sender_private"
      case senderPublic = "sender_public"
      case senderKeyid = "sender_keyid"
      case ephemeralPrivate = "ephemeral_private"
      case ephemeralPublic = "ephemeral_public"
      case strangerPrivate = "stranger_private"
      case streamLen = "stream_len"
    }
  }

  struct Multiplex: Decodable {
    struct Frame: Decodable, Sendable {
      let channel: UInt32
      let type: UInt8
      let data: HexBytes
      let wire: HexBytes
    }
    let format: String
    let types: [String: String]
    let frames: [Frame]
    let sessionInitiator: HexBytes
    let sessionReceiver: HexBytes

    enum CodingKeys: String, CodingKey {
      case format, types, frames
      case sessionInitiator = "session_initiator"
      case sessionReceiver = "session_receiver"
    }
  }

  struct Advdata: Decodable {
    struct Payload: Decodable, Sendable {
      let hex: HexBytes
      let len: Int
      let fits31: Bool
    }
    let mac: String
    let payloads: [String: Payload]
  }

  struct RFCOMM: Decodable {
    let hasNotification: HexBytes
    let noNotification: HexBytes
    let serverReply: HexBytes
    let afterHandshake: String
    let recordName: String
    let uuidSpec: String
    let uuidApp: String
    let oldPhone: HexBytes

    enum CodingKeys: String, CodingKey {
      case hasNotification = "handshake_client_has_notification"
      case noNotification = "handshake_client_no_notification"
      case serverReply = "handshake_server_reply"
      case afterHandshake = "after_handshake"
      case recordName = "record_name"
      case uuidSpec = "uuid_spec_2016"
      case uuidApp = "uuid_android_app"
      case oldPhone = "android_lib_handshake_ascii"
    }
  }

  struct SSDP: Decodable {
    let alive: String
    let byebye: String
    let search: String
    let searchResponse: String
    let phoneAlive: String
    let acceptOnInput: [String]

    enum CodingKeys: String, CodingKey {
      case alive, byebye, search
      case searchResponse = "search_response"
      case phoneAlive = "thali_2_1_0_alive"
      case acceptOnInput = "accept_on_input"
    }
  }

  struct HTTP: Decodable {
    let request: String
    let head200: String
    let body200: HexBytes
    let response204: String

    enum CodingKeys: String, CodingKey {
      case request
      case head200 = "response_200_head"
      case body200 = "response_200_body"
      case response204 = "response_204"
    }
  }
}
