import CQREncode
import Common
import Glibc

/// A QR code (ISO/IEC 18004): a square of dark and light modules, without the light margin around it (quiet zone).
public struct QRCode: Sendable, Equatable {
  /// Number of modules per side: 21, 25, … 177.
  public let size: Int
  /// The modules row by row; true is dark.
  private let modules: [Bool]

  /// Encodes a text in the smallest version that can contain it: at most 2953 bytes, or more for digits and capitals.
  ///
  /// The error correction level is L, or M if that does not enlarge the code. A screen causes no damage to correct, and
  /// a camera reads fewer and larger modules from a greater distance.
  public init(_ text: String) throws(QRCodeError) {
    guard !text.isEmpty else { throw QRCodeError(.empty) }
    // The library requires a C string.
    guard !text.utf8.contains(0) else { throw QRCodeError(.containsNUL) }
    let small = try QRCode(text, QR_ECLEVEL_L)
    let strong = try? QRCode(text, QR_ECLEVEL_M)
    self = if let strong, strong.size == small.size { strong } else { small }
  }

  private init(_ text: String, _ level: QRecLevel) throws(QRCodeError) {
    guard let code = QRcode_encodeString(text, 0, level, QR_MODE_8, 1) else {
      throw QRCodeError(errno == ERANGE ? .tooLong : .outOfMemory)
    }
    defer { QRcode_free(code) }
    let size = Int(code.pointee.width)
    self.size = size
    // The lowest bit of each byte is the colour; the others describe the purpose of the module.
    modules = UnsafeBufferPointer(start: code.pointee.data, count: size * size).map { $0 & 1 == 1 }
  }

  /// Whether the module is dark; everything outside the square is light.
  public func isDark(column: Int, row: Int) -> Bool {
    let square = 0..<size
    return square.contains(column) && square.contains(row) && modules[row * size + column]
  }
}

/// The reason why a text cannot be encoded as a QR code.
public struct QRCodeError: CodedError, Equatable {
  enum Reason: String, Sendable {
    case empty, containsNUL, tooLong, outOfMemory
  }

  let reason: Reason

  init(_ reason: Reason) {
    self.reason = reason
  }

  /// The stable name.
  public var code: String { reason.rawValue }

  /// The cause, for a person.
  public var sentence: String {
    switch reason {
    case .empty: "An empty text cannot be encoded as a QR code."
    case .containsNUL: "A text with a NUL character cannot be encoded as a QR code."
    case .tooLong: "The text is too long for a QR code."
    case .outOfMemory: "Out of memory while encoding the QR code."
    }
  }
}

extension QRCode {
  /// The code as text, two modules per character, with a newline after each line.
  ///
  /// With `colour` the modules are black on white on any terminal. Without it the drawing is correct on a dark
  /// terminal, and `inverted` is correct on a light one.
  /// - Parameter quietZone: light modules on each side; the standard requires 4, readers accept 2.
  public func halfBlocks(quietZone: Int = 4, inverted: Bool = false, colour: Bool = false) -> String {
    // Glyphs have the foreground colour: they are dark modules if that is black or the terminal is light.
    let glyphIsDark = colour || inverted
    let (begin, end) = colour ? (inverted ? Self.whiteOnBlack : Self.blackOnWhite, Self.plain) : ("", "")
    var text = ""
    for row in stride(from: -quietZone, to: size + quietZone, by: 2) {
      text += begin
      for column in -quietZone..<size + quietZone {
        let upper = isDark(column: column, row: row) == glyphIsDark
        // The height is odd: there is only background below the last row.
        let lower = row + 1 < size + quietZone && isDark(column: column, row: row + 1) == glyphIsDark
        text += Self.block(upper: upper, lower: lower)
      }
      text += end + "\n"
    }
    return text
  }

  /// The code as text, with two columns and one line per module: four times the area, for a large terminal.
  public func fullBlocks(quietZone: Int = 4, inverted: Bool = false) -> String {
    (-quietZone..<size + quietZone).map { row in
      let modules = (-quietZone..<size + quietZone).map { isDark(column: $0, row: row) == inverted ? "██" : "  " }
      return modules.joined() + "\n"
    }.joined()
  }

  /// A row of an `inverted` drawing without colour, shown black on white.
  static func coloured(_ row: String) -> String { blackOnWhite + row + plain }

  /// The drawing for a terminal of this width, with the widest quiet zone that fits; nil if the code does not fit.
  public func drawing(on terminal: TerminalInfo) -> String? {
    guard let quietZone = [4, 2].first(where: { size + 2 * $0 <= terminal.width }) else { return nil }
    return halfBlocks(quietZone: quietZone, colour: terminal.hasColour)
  }

  // Colours from the 256-colour table, because themes may redefine the basic colours.
  private static let blackOnWhite = "\u{1B}[38;5;16;48;5;231m"
  private static let whiteOnBlack = "\u{1B}[38;5;231;48;5;16m"
  private static let plain = "\u{1B}[0m"

  private static func block(upper: Bool, lower: Bool) -> String {
    switch (upper, lower) {
    case (true, true): "█"
    case (true, false): "▀"
    case (false, true): "▄"
    case (false, false): " "
    }
  }
}
