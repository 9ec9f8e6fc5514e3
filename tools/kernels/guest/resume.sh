# Lets the suspended device go on, and ends when the sync that waited for it has ended: resume.sh REPORT
. /t/functions.sh
dmsetup --noudevsync resume slow
until_true grep -q calls $1
