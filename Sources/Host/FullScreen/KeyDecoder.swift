import CNcurses

/// Decodes keys from ncurses input, one piece at a time.
struct KeyDecoder {
  enum Piece {
    case character(UInt32)
    case function(Int32)
  }

  /// Maximum code points of a paste; more are discarded.
  static let longestPaste = 1 << 17

  private var paste: String.UnicodeScalarView?
  private var pasted = 0
  private var afterEscape = false

  /// Decodes the next piece of input.
  ///
  /// - Returns: the key; nil if more pieces are needed.
  mutating func take(_ piece: Piece) -> Key? {
    if paste != nil { return takePasted(piece) }
    switch piece {
    case .function(let code): return function(code)
    case .character(let value):
      if value == 27, !afterEscape {
        afterEscape = true
        return nil
      }
      defer { afterEscape = false }
      let key = Self.character(value)
      guard afterEscape else { return key }
      if case .character(let character)? = key { return .alt(character) }
      return key
    }
  }

  /// Decodes the end of the input: a pending escape character is the Escape key.
  mutating func end() -> Key? {
    defer { afterEscape = false }
    return afterEscape ? .escape : nil
  }

  private mutating func takePasted(_ piece: Piece) -> Key? {
    switch piece {
    case .function(Int32(EARSHOT_PASTE_END)):
      defer { paste = nil }
      return paste.map { .paste(String($0)) }
    case .function: return nil
    case .character(let value):
      if let scalar = Unicode.Scalar(value), pasted < Self.longestPaste {
        pasted += 1
        paste?.append(scalar == "\r" ? "\n" : scalar)
      }
      return nil
    }
  }

  private mutating func function(_ code: Int32) -> Key? {
    defer { afterEscape = false }
    switch code {
    case Int32(EARSHOT_PASTE_BEGIN):
      paste = .init()
      pasted = 0
      return nil
    case Int32(EARSHOT_ALT_UP): return .altUp
    case Int32(EARSHOT_ALT_DOWN): return .altDown
    case KEY_UP: return afterEscape ? .altUp : .up
    case KEY_DOWN: return afterEscape ? .altDown : .down
    case KEY_LEFT: return .left
    case KEY_RIGHT: return .right
    case KEY_HOME: return .home
    case KEY_END: return .end
    case KEY_PPAGE: return .pageUp
    case KEY_NPAGE: return .pageDown
    case KEY_BACKSPACE: return .backspace
    case KEY_DC: return .delete
    case KEY_BTAB: return .backTab
    case KEY_ENTER: return .enter
    default: return nil
    }
  }

  private static func character(_ value: UInt32) -> Key? {
    switch value {
    case 9: return .tab
    case 10, 13: return .enter
    case 8, 127: return .backspace
    case 27: return .escape
    case 1...26: return Unicode.Scalar(value + 96).map { .control(Character($0)) }
    case 0..<32: return nil
    default: return Unicode.Scalar(value).map { .character(Character($0)) }
    }
  }
}

/// A key press, or pasted text.
public enum Key: Sendable, Equatable {
  case character(Character)
  /// A key with Ctrl, as a lower-case letter.
  case control(Character)
  /// A key with Alt.
  case alt(Character)
  case enter, tab, backTab, backspace, delete, escape
  case up, down, left, right, home, end, pageUp, pageDown
  case altUp, altDown
  /// Pasted text, including line ends.
  case paste(String)
}
