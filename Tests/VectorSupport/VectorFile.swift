import Bytes
import Foundation

/// Bytes that are hexadecimal digits in a file of vectors.
public struct HexBytes: Decodable, Hashable, Sendable {
  public let bytes: [UInt8]

  public init(from decoder: any Decoder) throws {
    bytes = try Hex.decode(try decoder.singleValueContainer().decode(String.self))
  }
}

/// A file of vectors in JSON, in the folder `Vectors` of a test target.
public struct VectorFile {
  private let name: String
  private let url: URL
  private let decoder = JSONDecoder()

  /// - Parameters:
  ///   - bundle: the resources of the test target.
  ///   - convertsNames: whether names such as `noise_x` are converted to `noiseX`.
  public init(_ name: String, in bundle: Bundle, convertsNames: Bool = true) {
    self.name = name
    url = bundle.bundleURL.appendingPathComponent("Vectors/\(name).json")
    if convertsNames { decoder.keyDecodingStrategy = .convertFromSnakeCase }
  }

  public func read<Value: Decodable>(_: Value.Type = Value.self) -> Value {
    do {
      return try decoder.decode(Value.self, from: try Data(contentsOf: url))
    } catch {
      fatalError("\(name).json cannot be read: \(error)")
    }
  }

  /// The names of all sections of the file.
  public func sectionNames() throws -> Set<String> {
    try decoder.decode(SectionNames.self, from: try Data(contentsOf: url)).names
  }
}

private struct SectionNames: Decodable {
  private struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
  }

  let names: Set<String>

  init(from decoder: any Decoder) throws {
    names = Set(try decoder.container(keyedBy: Name.self).allKeys.map(\.stringValue))
  }
}
