/// The name of a file in the spool. Every name begins with the record's id and a dot:
///
/// | name | the file |
/// |---|---|
/// | `ID.MM.record` | a record, a `SpoolFile`; MM is its mark, two hex digits in lower case |
/// | `ID.new` | a record that is being written; `put` or `redate` has not returned |
/// | `NAME.erased` | a record, of whatever NAME, that is being erased; `remove` has begun |
/// | `NAME.damaged` | a file, of whatever NAME, that could not be read; it is kept for an administrator |
/// | `ID.WORD` | a file of another release; WORD is letters in lower case |
///
/// A file with any other name is not the spool's, and is not touched.
enum SpoolFileName: Hashable {
  case record(SpoolID, mark: UInt8)
  case new(SpoolID)
  case erased(SpoolID, String)
  case damaged(SpoolID, String)
  case otherRelease(SpoolID, String)

  private static let recordEnding = ".record"
  private static let erasedEnding = ".erased"
  private static let damagedEnding = ".damaged"

  /// Nil for a name that is not the spool's.
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

  /// The mark in `.MM.record`; nil if the text is anything else.
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

  /// The name as it stands in the directory.
  var text: String {
    switch self {
    case .record(let id, let mark): "\(id).\(Self.hex(mark))\(Self.recordEnding)"
    case .new(let id): "\(id).new"
    case .erased(_, let name), .damaged(_, let name), .otherRelease(_, let name): name
    }
  }

  /// The name that this file has while it is being erased.
  var whileErased: SpoolFileName { .erased(id, text + Self.erasedEnding) }

  /// The name that this file gets when it is found to be damaged.
  var whenDamaged: SpoolFileName { .damaged(id, text + Self.damagedEnding) }

  /// Whether the file holds a record that counts: neither one on its way, nor a damaged one.
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
