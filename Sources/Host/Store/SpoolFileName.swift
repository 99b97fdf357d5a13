/// The name of a file in the spool. Every name begins with the record's ID and a dot:
///
/// | name | the file |
/// |---|---|
/// | `ID.MM.record` | a record, a `SpoolFile`; MM is its mark, two lower-case hex digits |
/// | `ID.new` | a record that is being written; `put` or `redate` has not returned |
/// | `NAME.erased` | a record, with any NAME, that is being erased; `remove` has begun |
/// | `NAME.damaged` | a file, with any NAME, that could not be read; it is preserved for an administrator |
/// | `ID.WORD` | a file of another release; WORD consists of lower-case letters |
///
/// A file with any other name does not belong to the spool, and is not changed.
enum SpoolFileName: Hashable {
  case record(SpoolID, mark: UInt8)
  case new(SpoolID)
  case erased(SpoolID, String)
  case damaged(SpoolID, String)
  case otherRelease(SpoolID, String)

  private static let recordEnding = ".record"
  private static let erasedEnding = ".erased"
  private static let damagedEnding = ".damaged"

  /// Parses a name; nil if the file does not belong to the spool.
  init?(_ name: String) {
    guard let dot = name.firstIndex(of: "."), let id = SpoolID(name[..<dot]) else { return nil }
    let ending = name[dot...]
    if ending == ".new" {
      self = .new(id)
    } else if ending.hasSuffix(Self.erasedEnding) {
      self = .erased(id, name)
    } else if ending.hasSuffix(Self.damagedEnding) {
      self = .damaged(id, name)
    } else if let mark = Self.mark(ending) {
      self = .record(id, mark: mark)
    } else if ending.count > 1, ending.dropFirst().allSatisfy({ ("a"..."z").contains($0) }) {
      self = .otherRelease(id, name)
    } else {
      return nil
    }
  }

  /// The mark in `.MM.record`; nil for any other text.
  private static func mark(_ ending: Substring) -> UInt8? {
    guard ending.hasSuffix(recordEnding) else { return nil }
    let digits = ending.dropLast(recordEnding.count).dropFirst()
    guard let mark = UInt8(digits, radix: 16), hex(mark) == digits else { return nil }
    return mark
  }

  private static func hex(_ mark: UInt8) -> String { (mark < 16 ? "0" : "") + String(mark, radix: 16) }

  var id: SpoolID {
    switch self {
    case .record(let id, _), .new(let id), .erased(let id, _), .damaged(let id, _), .otherRelease(let id, _): id
    }
  }

  /// The name in the directory.
  var text: String {
    switch self {
    case .record(let id, let mark): "\(id).\(Self.hex(mark))\(Self.recordEnding)"
    case .new(let id): "\(id).new"
    case .erased(_, let name), .damaged(_, let name), .otherRelease(_, let name): name
    }
  }

  /// The file's name while it is being erased.
  var whileErased: SpoolFileName { .erased(id, text + Self.erasedEnding) }

  /// The file's name after it was found to be damaged.
  var whenDamaged: SpoolFileName { .damaged(id, text + Self.damagedEnding) }

  /// Whether the file contains a complete record that is not known to be damaged.
  var holdsRecord: Bool {
    switch self {
    case .record, .otherRelease: true
    case .new, .erased, .damaged: false
    }
  }

  var mark: UInt8 {
    if case .record(_, let mark) = self { mark } else { 0 }
  }
}
