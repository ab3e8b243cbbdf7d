"""Spoken words and their written form, as a table of examples."""

from __future__ import annotations

# Spoken | written. If both sides are the same, the row says that nothing may change.
TABLE = """
# cardinals
twenty one | 21
ten people | 10 people
eleven | 11
nineteen | 19
ninety nine | 99
twenty-one | 21
one hundred | 100
one hundred five | 105
one hundred and five | 105
two hundred forty three | 243
nine hundred and ninety nine | 999
twelve hundred | 1200
nineteen hundred | 1900
twenty five hundred | 2500
one thousand | 1000
two thousand and five | 2005
two thousand five | 2005
two thousand twenty six | 2026
five thousand six hundred | 5600
one thousand one hundred and eleven | 1111
ten thousand | 10,000
one hundred and twenty three thousand | 123,000
five hundred thousand | 500,000
one hundred twenty three thousand four hundred and fifty six | 123,456
three million | 3 million
one hundred million | 100 million
one million two hundred thousand | 1,200,000
a million and one | 1,000,001
seven billion | 7 billion
a hundred and five people | 105 people
a thousand two hundred | 1200
two hundred five hundred | 200 500
five thousand two million | 5000 2 million
five thousand and five hundred | 5000 and 500
ten or twenty | 10 or 20
from twenty to thirty | from 20 to 30
twenty and thirty | 20 and 30
# small numbers stay words
one | one
five | five
zero | zero
five people | five people
one of them | one of them
no one | no one
one another | one another
this one is the one | this one is the one
two or three | two or three
one two | one two
five minutes | five minutes
nine years ago | nine years ago
the two of us | the two of us
# many, not counted
a hundred | a hundred
a hundred times | a hundred times
a thousand thanks | a thousand thanks
a million people | a million people
hundreds of thousands | hundreds of thousands
several hundred | several hundred
a couple hundred | a couple hundred
half a million dollars | half a million dollars
three quarters of a million dollars | three quarters of a million dollars
two dozen | two dozen
# with what they measure, or what they tell apart
five degrees | 5 degrees
six feet | 6 feet
eight kilometres | 8 kilometres
three miles | 3 miles
two pounds of butter | 2 pounds of butter
she lost five pounds | she lost 5 pounds
page two | page 2
chapter one | chapter 1
version three point one | version 3.1
room twelve | room 12
minus five degrees | -5 degrees
negative ten | -10
ten minus five | 10 minus five
five minus three | five minus three
minus the costs | minus the costs
# decimals
three point one four | 3.14
zero point five | 0.5
one point oh | 1.0
three point one four one five nine two | 3.141592
three point twenty three | 3.23
three hundred and three point five | 303.5
two point five million | 2.5 million
the point is | the point is
point five | point five
at this point five people left | at this point five people left
one point for you | one point for you
# ordinals
twenty first | 21st
the twenty second | the 22nd
twenty third | 23rd
tenth | 10th
eleventh | 11th
twelfth | 12th
thirteenth | 13th
twentieth century | 20th century
thirty-fifth | 35th
one hundred and first | 101st
one hundred eleventh | 111th
two hundredth | 200th
two thousandth | 2000th
first | first
the first of all | the first of all
the second one | the second one
one second | one second
a second | a second
thirty seconds | 30 seconds
a thirty second clip | a 30 second clip
third time lucky | third time lucky
at first sight | at first sight
# parts
half | half
a half | a half
two thirds | two thirds
three quarters | three quarters
one tenth of a second | one tenth of a second
a tenth of it | a tenth of it
one hundredth | one hundredth
ten and a half | 10 and a half
# years
nineteen eighty four | 1984
twenty twenty six | 2026
in twenty ten | in 2010
nineteen oh five | 1905
sixteen sixty six | 1666
in ten sixty six | in 1066
fourteen sixty nine | 1469
fourteen thirty | 14 30
twelve ninety | 12 90
ten eleven and twelve | 10 11 and 12
the nineteen eighties | the 1980s
the eighties | the eighties
in fifteen twenty minutes | in 15 20 minutes
sixteen seventeen year olds | 16 17 year olds
eighteen twenty years ago | 18 20 years ago
# money
five dollars and ten cents | $5.10
five dollars ten cents | $5.10
five dollars and five cents | $5.05
one dollar | $1
five dollars | $5
a five dollar bill | a $5 bill
twenty pounds | £20
five pounds fifty pence | £5.50
ten euros | €10
twelve euros and thirty cents | €12.30
five hundred yen | ¥500
fifty cents | 50 cents
two cents | 2 cents
one cent | one cent
a hundred dollars | $100
a million dollars | $1 million
two point five million dollars | $2.5 million
three million euros | €3 million
ten thousand dollars | $10,000
three point five dollars | $3.5
five dollars and a coffee | $5 and a coffee
five dollars and ten people | $5 and 10 people
minus ten dollars | -$10
a dollar | a dollar
the dollar fell | the dollar fell
ten bucks | 10 bucks
# percent
five percent | 5%
one percent | 1%
five per cent | 5%
zero point five percent | 0.5%
a hundred percent | 100%
twenty three point four five percent | 23.45%
ten per day | 10 per day
percent | percent
# times
half past three | 3:30
quarter past five | 5:15
a quarter past five | 5:15
quarter to five | 4:45
a quarter to one | 12:45
ten past five | 5:10
five past twelve | 12:05
twenty five past two | 2:25
ten minutes to five | 4:50
five minutes past six | 6:05
seven o'clock | 7 o'clock
seven o clock | 7 o'clock
ten thirty p m | 10:30 PM
ten thirty pm | 10:30 PM
five a m | 5 AM
nine oh five a m | 9:05 AM
half past three p m | 3:30 PM
ten thirty | 10:30
two fifteen | 2:15
at five twenty | at 5:20
at nine oh five | at 9:05
at fifteen forty | at 15:40
by nineteen fifty | by 1950
until eleven fifty five | until 11:55
twelve noon | 12 noon
twenty to five | 20 to five
a quarter to five percent | a quarter to 5%
half the people | half the people
a quarter of it | a quarter of it
no one thirty years old | no one 30 years old
two thirty minute sessions | two 30 minute sessions
five a day | five a day
seven am i late | seven am I late
# dates
november twenty first | November 21
november the twenty first | November 21
november twenty first twenty twenty six | November 21, 2026
november five twenty twenty six | November 5, 2026
november nineteen nineteen eighteen | November 19, 1918
july fourth seventeen seventy six | July 4, 1776
november twenty twenty six | November 2026
november two thousand and five | November 2005
in november | in November
november's rain | November's rain
in november five people came | in November five people came
the twenty first of november twenty twenty six | the 21st of November 2026
the fourth of july | the 4th of July
the first of may | the 1st of May
the tenth of march nineteen eighty | the 10th of March 1980
may fifth | May 5
on may first | on May 1
may twenty twenty six | May 2026
march two thousand five | March 2005
may | may
you may | you may
you may first try | you may first try
they march on | they march on
it may be march | it may be march
he may come | he may come
monday | Monday
on sundays | on Sundays
sunday's paper | Sunday's paper
tuesday the fifth | Tuesday the 5th
# digits
five five five one two three four | 5551234
five five five oh one two three | 5550123
call eight hundred five five five oh one two three | call 800 5550123
nine one one | 911
two oh one | 201
double oh seven | 007
four one triple five | 41555
one two three go | 1 2 3 go
three two one | 3 2 1
one two three four five six seven eight nine ten | 1 2 3 4 5 6 7 8 9 10
one two three hundred | one two 300
oh | oh
oh one moment | oh one moment
oh my god | oh my god
double trouble | double trouble
# pronouns
i | I
i'm sure i'll go | I'm sure I'll go
i've i'd | I've I'd
in | in
ii | ii
# what no rule knows
the cat sat on the mat | the cat sat on the mat
o'neill didn't | o'neill didn't
naïve café señor | naïve café señor
and | and
sat wed sun mon | sat wed sun mon
"""

ROWS = [
    tuple(side.strip() for side in line.split("|"))
    for line in TABLE.strip().splitlines()
    if line.strip() and not line.startswith("#")
]
