import Bytes

/// Version negotiation of mid-2025 in JSON: an object of texts, numbers and lists of numbers. Facts: bitchat.md section
/// 16.1.
///
/// Not a complete parser: it reads the value after the first occurrence of a name in quotes.
struct VersionJSON {
  /// Maximum length of the object, in bytes.
  package static let limit = 1024
  /// Maximum number of elements of a list in the JSON object.
  static let listLimit = 16

  private let bytes: [UInt8]

  /// Reads an object. Nil for a payload that is not an object, or is too long.
  init?(_ payload: [UInt8]) {
    guard payload.first == UInt8(ascii: "{"), payload.last == UInt8(ascii: "}"), payload.count <= Self.limit else {
      return nil
    }
    bytes = payload
  }

  /// Returns the numbers of a list; 0 for elements that are not numbers. Nil if the list is missing or too long.
  package func numbers(_ name: String) -> [UInt8]? {
    guard let value = value(of: name), value.first == UInt8(ascii: "[") else { return nil }
    let inside = value.dropFirst().prefix { $0 != UInt8(ascii: "]") }
    let parts = inside.split(separator: UInt8(ascii: ","))
    guard parts.count <= Self.listLimit else { return nil }
    return parts.map { Self.number($0) ?? 0 }
  }

  package func number(_ name: String) -> UInt8? { value(of: name).flatMap(Self.number) }

  /// Returns a text; nil if it is missing, has escapes or exceeds 255 bytes.
  package func text(_ name: String) -> String? {
    guard let value = value(of: name), value.first == UInt8(ascii: "\"") else { return nil }
    let inside = value.dropFirst().prefix { $0 != UInt8(ascii: "\"") }
    guard inside.count <= Limits.shortValueBytes, !inside.contains(UInt8(ascii: "\\")) else { return nil }
    return String(validating: inside, as: UTF8.self)
  }

  func isTrue(_ name: String) -> Bool { value(of: name)?.starts(with: "true".utf8) ?? false }

  /// Returns the bytes after a name and its colon.
  private func value(of name: String) -> ArraySlice<UInt8>? {
    let key = Array("\"\(name)\"".utf8)
    guard bytes.count > key.count else { return nil }
    let places = 0...(bytes.count - key.count)
    guard let place = places.first(where: { bytes[$0...].starts(with: key) }) else { return nil }
    let behind = bytes[(place + key.count)...].drop { Self.isBlank($0) }
    guard behind.first == UInt8(ascii: ":") else { return nil }
    return behind.dropFirst().drop { Self.isBlank($0) }
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt8? {
    let digits = bytes.drop { isBlank($0) }.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    return UInt8(String(decoding: digits, as: UTF8.self))
  }

  private static func isBlank(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }
}

extension VersionHello {
  /// Decodes a hello in binary or JSON. Unknown versions in JSON are skipped, so the list may be empty.
  package init(payload: [UInt8]) throws(WireError) {
    guard payload.first == UInt8(ascii: "{") else {
      try self.init(reading: payload)
      return
    }
    guard let json = VersionJSON(payload), let versions = json.numbers("supportedVersions") else {
      throw .badValue("versions")
    }
    try self.init(
      versions: versions.compactMap { PacketVersion(rawValue: $0) }, preferred: json.number("preferredVersion") ?? 1,
      clientVersion: json.text("clientVersion") ?? "", platform: json.text("platform") ?? "")
  }
}

extension VersionAck {
  /// Decodes an answer in binary or JSON.
  package init(payload: [UInt8]) throws(WireError) {
    guard payload.first == UInt8(ascii: "{") else {
      try self.init(reading: payload)
      return
    }
    guard let json = VersionJSON(payload), let agreed = json.number("agreedVersion") else { throw .badValue("agreed") }
    try self.init(
      agreed: agreed, serverVersion: json.text("serverVersion") ?? "", platform: json.text("platform") ?? "",
      isRejected: json.isTrue("rejected"), reason: json.text("reason"))
  }
}
