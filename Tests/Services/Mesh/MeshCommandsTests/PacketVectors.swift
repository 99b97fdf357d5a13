import Foundation

/// Packets from the protocol's vectors, in hexadecimal digits.
enum PacketVectors {
  /// All valid packets in any section of the file.
  static var valid: [String] {
    get throws {
      let file = try file()
      return sections.flatMap { file[$0].map { wires($0) } ?? [] }
    }
  }

  private static let sections = [
    "packets", "compressed_signature_cases", "fragments", "notification_stream", "legacy_2025",
  ]

  /// Name and digits of the malformed packets.
  static var malformed: [(name: String, wire: String)] {
    get throws { rows(try file()["packets_invalid"]) }
  }

  static func named(_ name: String) throws -> String? {
    rows(try file()["packets"]).first { $0.name == name }?.wire
  }

  /// The text of a verification code.
  static var code: String {
    get throws { (try file()["verification_qr"] as? [String: Any])?["url"] as? String ?? "" }
  }

  /// The eight bytes of the sender, at their offset in either version.
  static func sender(_ wire: String) -> String {
    String(wire.dropFirst(wire.hasPrefix("02") ? 32 : 28).prefix(16))
  }

  private static func rows(_ section: Any?) -> [(name: String, wire: String)] {
    (section as? [[String: Any]] ?? []).compactMap { row in
      guard let name = row["name"] as? String, let wire = row["wire"] as? String else { return nil }
      return (name, wire)
    }
  }

  private static func wires(_ value: Any) -> [String] {
    if let elements = value as? [Any] { return elements.flatMap { wires($0) } }
    guard let members = value as? [String: Any] else { return [] }
    return members.sorted { $0.key < $1.key }.flatMap { name, value -> [String] in
      switch name {
      case "wire", "inner_wire": (value as? String).map { [$0] } ?? []
      case "fragments", "frames", "fragments_type_05_06_07": value as? [String] ?? []
      default: wires(value)
      }
    }
  }

  private static func file() throws -> [String: Any] {
    let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let data = try Data(contentsOf: tests.appending(path: "Protocols/BitchatTests/Vectors/bitchat.json"))
    return try JSONSerialization.jsonObject(with: data) as? [String: Any] ?? [:]
  }
}
