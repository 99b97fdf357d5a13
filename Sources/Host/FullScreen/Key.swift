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
