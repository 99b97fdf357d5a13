import CQREncode
import Glibc

/// A QR code (ISO/IEC 18004): a square of dark and light modules, without its quiet zone.
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
