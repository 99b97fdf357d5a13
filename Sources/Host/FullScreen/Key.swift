/// What was typed.
public enum Key: Sendable, Equatable {
  case character(Character)
  /// With the control key: a lower-case letter.
  case control(Character)
  /// With the alt key.
  case alt(Character)
  case enter, tab, backTab, backspace, delete, escape
  case up, down, left, right, home, end, pageUp, pageDown
  case altUp, altDown
  /// A text that was put in as a whole, line ends included.
  case paste(String)
}
